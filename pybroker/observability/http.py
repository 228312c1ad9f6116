"""/metrics, /healthz and /readyz over HTTP/1.0 on `metrics.listener`.

Written by hand on asyncio's streams, because the job is three GET answers without a body to read: starlette with
uvicorn, the choice for a console, costs four times the import time of this whole control plane and 15 MiB of memory,
and both are bars of this product. What makes hand-written HTTP dangerous is left out: no request bodies, no keep-alive,
no chunking, no path that touches a file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8192
"""A scraper's request head is a few hundred bytes; asyncio's reader stops at this limit."""

EXCHANGE_SECONDS_MAX = 10.0
"""From accept to the end of the answer: a slow peer does not hold a connection for longer."""

CONNECTIONS_MAX = 32
"""Scrapers and probes come one at a time; above this a connection is closed unanswered."""

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_TEXT = "text/plain; charset=utf-8"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Serves until `stop`. `metrics` gives the text of /metrics, `ready` whether clients are served; both are asked on
    the loop's thread.
    """

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Callable[[], Awaitable[str]],
        ready: Callable[[], bool],
    ) -> None:
        """`metrics` may take long, as long as it lets others have their turn."""
        self._address = host, port
        self._metrics = metrics
        self._ready = ready
        self._server: asyncio.Server | None = None
        self._connections = 0

    async def start(self) -> tuple[str, int]:
        """Listens; the bound address. Raises OSError if it cannot."""
        host, port = self._address
        self._server = await asyncio.start_server(self._serve, host or None, port, limit=HEAD_BYTES_MAX)
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def stop(self) -> None:
        """Stops accepting; answers in progress end within EXCHANGE_SECONDS_MAX."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= CONNECTIONS_MAX:
                async with asyncio.timeout(EXCHANGE_SECONDS_MAX):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            log.debug("a peer of metrics.listener did not send a request in time, or went away")
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(400, _TEXT, "bad request\n", True)
        method, target = words[0], words[1].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, _TEXT, "only GET and HEAD\n", True)
        with_body = method == b"GET"
        if target == b"/healthz":
            return _response(200, _TEXT, "ok\n", with_body)
        if target == b"/readyz":
            return (
                _response(200, _TEXT, "ready\n", with_body)
                if self._ready()
                else _response(503, _TEXT, "not ready\n", with_body)
            )
        if target == b"/metrics":
            try:
                text = await self._metrics()
            except Exception:
                log.exception("the metrics could not be collected: this is a bug in pybroker")
                return _response(500, _TEXT, "the metrics could not be collected; see the broker's log\n", with_body)
            return _response(200, _PROMETHEUS, text, with_body)
        return _response(404, _TEXT, "there are /metrics, /healthz and /readyz\n", with_body)


def _response(status: int, content_type: str, text: str, with_body: bool) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.0 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
