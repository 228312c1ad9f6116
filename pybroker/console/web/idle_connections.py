"""Limits for idle connections. Each connection has a time limit for its request, and the oldest are closed to make room
for new connections. uvicorn limits the idle time only after a response, and counts idle connections for
`limit_concurrency`."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 200
"""Limit of connections with a complete request. Above it, new requests get 503."""

WAITING_MAX = 100
"""Limit of connections without a complete request. Above it, the oldest is closed."""

HEAD_S = 5.0
"""Time limit in seconds for the head of a request."""

BODY_S = 15.0
"""Time limit in seconds for the body, after the head."""


LINES_PER_SECOND_MAX = 5
"""Limit of log lines per second. There is a limit because clients that are not logged in can cause these lines."""


class RateFilter(logging.Filter):
    """Drops uvicorn's log lines above a rate."""

    def __init__(self) -> None:
        super().__init__()
        self._second = self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        return self._lines <= LINES_PER_SECOND_MAX


class BoundedProtocol(H11Protocol):
    """One connection of the console."""

    waiting: ClassVar[dict[BoundedProtocol, None]] = {}
    """Connections without a complete request, oldest first."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._has_head = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the request; close the oldest connection if there are too many."""
        super().connection_made(transport)
        self._look()
        if len(self.waiting) > WAITING_MAX:
            next(iter(self.waiting)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the connections without a complete request."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Record how much of the request has arrived."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if self.transport.is_closing() or (answering and not cycle.more_body):
            self._wait_no_more()
        elif self._deadline is None or answering is not self._has_head:
            self._wait_no_more()
            self._has_head = answering
            self._deadline = self.loop.call_later(BODY_S if answering else HEAD_S, self._too_late)
            self.waiting[self] = None

    def _too_late(self) -> None:
        self._deadline = None
        self.transport.abort()

    def _wait_no_more(self) -> None:
        self.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
