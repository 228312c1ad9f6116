"""/metrics, /healthz and /readyz over HTTP/1.0 on `metrics.listener`.

It uses asyncio's streams directly, because it only answers three GET requests without bodies. starlette with uvicorn
would take four times the import time of the whole control plane and 15 MiB of memory. The dangerous parts of
hand-written HTTP are absent: request bodies, keep-alive, chunking, and paths of files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8192
"""Size limit in bytes of a request's head, enforced by asyncio's reader. The head of a scraper has a few hundred bytes.
"""

HEAD_SECONDS_MAX = 5.0
"""Time limit in seconds from accept to the end of the request's head."""

ANSWER_SECONDS_MAX = 10.0
"""Time limit in seconds of the response. Without it, a slow peer would keep a connection for longer."""

HEADS_MAX = 64
"""Limit of connections without a complete request. Above it, a new connection closes the oldest one, so that idle
connections cannot block probes of /healthz."""

SCRAPES_MAX = 32
"""Limit of concurrent /metrics responses. Above it, connections are closed without a response. Probes are not limited,
because their responses fit into a socket's buffer.
"""

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
    """Serves until `stop`. Both functions run on the loop's thread: `metrics` returns the text of /metrics, and
    `not_ready` returns the reason why the broker does not serve clients.
    """

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Callable[[], Awaitable[str]],
        not_ready: Callable[[], str | None],
    ) -> None:
        """`metrics` may take long, but must yield to other tasks. `not_ready` returns the reason, or None if the broker
        is ready.
        """
        self._address = host, port
        self._metrics = metrics
        self._not_ready = not_ready
        self._server: asyncio.Server | None = None
        self._heads: dict[asyncio.StreamWriter, None] = {}
        self._scrapes = 0
        self._collecting: asyncio.Task[str] | None = None

    async def start(self) -> tuple[str, int]:
        """Listen and return the bound address. Raises OSError."""
        host, port = self._address
        self._server = await asyncio.start_server(self._serve, host or None, port, limit=HEAD_BYTES_MAX)
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def stop(self) -> None:
        """Stop accepting; responses in progress end within ANSWER_SECONDS_MAX."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._heads[writer] = None
            if len(self._heads) > HEADS_MAX:
                oldest = next(iter(self._heads))
                del self._heads[oldest]
                oldest.transport.abort()
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            self._heads.pop(writer, None)
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await self._answer(head, writer)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            log.debug("a client of metrics.listener disconnected or did not send a request in time")
        finally:
            self._heads.pop(writer, None)
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) == 3 and words[0] in (b"GET", b"HEAD") and words[1].split(b"?", 1)[0] == b"/metrics":
            if self._scrapes >= SCRAPES_MAX:
                return
            self._scrapes += 1
            try:
                writer.write(await self._scraped(with_body=words[0] == b"GET"))
                await writer.drain()
            finally:
                self._scrapes -= 1
            return
        writer.write(self._at_once(words))
        await writer.drain()

    def _at_once(self, words: list[bytes]) -> bytes:
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(400, _TEXT, "bad request\n", True)
        method, target = words[0], words[1].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, _TEXT, "only GET and HEAD\n", True)
        with_body = method == b"GET"
        if target == b"/healthz":
            return _response(200, _TEXT, "ok\n", with_body)
        if target == b"/readyz":
            reason = self._not_ready()
            if reason is None:
                return _response(200, _TEXT, "ready\n", with_body)
            return _response(503, _TEXT, f"not ready: {reason}\n", with_body)
        return _response(404, _TEXT, "this listener serves /metrics, /healthz and /readyz\n", with_body)

    async def _scraped(self, *, with_body: bool) -> bytes:
        # Concurrent requests get the same text, because building it takes the loop milliseconds for each thousand
        # partitions.
        if self._collecting is None:
            self._collecting = asyncio.ensure_future(self._metrics())
            self._collecting.add_done_callback(self._collected)
        try:
            text = await asyncio.shield(self._collecting)
        except Exception:
            log.exception("cannot collect the metrics: this is a bug in pybroker")
            return _response(500, _TEXT, "cannot collect the metrics; see the broker's log\n", with_body)
        return _response(200, _PROMETHEUS, text, with_body)

    def _collected(self, _: asyncio.Future[str]) -> None:
        self._collecting = None


def _response(status: int, content_type: str, text: str, with_body: bool) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.0 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
