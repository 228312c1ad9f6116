"""A broker whose responses a test defines: for responses that real brokers send rarely or never."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pybroker import native
from pybroker.protocol import messages as m

Answer = Callable[[Any, int], Any]
"""(request, version) → the response; None: no response; bytes are sent unchanged; an exception closes the
connection."""


class FakeBroker:
    """Answers ApiVersions and the requests in `answers`, by the name of the request's class; records the requests.
    delay_s: time before a response. interbroker: use the layouts between brokers."""

    def __init__(
        self,
        answers: dict[str, Answer],
        versions: dict[int, tuple[int, int]] | None = None,
        *,
        interbroker: bool = False,
    ) -> None:
        self.answers = answers
        self.interbroker = interbroker
        self.client_ids: list[str] = []
        self.versions = versions or {3: (0, 12), 18: (0, 4)}
        self.requests: list[tuple[Any, int]] = []
        self.connections = 0
        self.delay_s = 0.0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked(self, kind: str) -> list[Any]:
        """Return the requests of one class so far."""
        return [request for request, _ in self.requests if type(request).__name__ == kind]

    def metadata(self, *, cluster_id: str | None = "fake", topics: tuple[Any, ...] = (), node: int = 1) -> Any:
        """Return a Metadata response with this broker as the only one."""
        broker = m.MetadataResponse_MetadataResponseBroker(node_id=node, host="127.0.0.1", port=self.port)
        return m.MetadataResponse(brokers=[broker], cluster_id=cluster_id, controller_id=node, topics=list(topics))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                (length,) = struct.unpack_from(">h", frame, 8)
                begin = 10 + max(0, length) + int(_flexible(key, version))
                self.client_ids.append(frame[10 : 10 + max(0, length)].decode())
                request = native.decode(key, version, frame[begin:], True, interbroker=self.interbroker)
                self.requests.append((request, version))
                answer = self._answer(request, version)
                await asyncio.sleep(self.delay_s)
                if isinstance(answer, Exception):
                    writer.close()
                    return
                if answer is None:
                    continue
                if isinstance(answer, bytes):
                    writer.write(answer)
                    continue
                told = 0 if key == 18 and version > self.versions[18][1] else version
                head = struct.pack(">i", correlation_id)
                if key != 18 and _flexible(key, version):
                    head += b"\0"
                body = head + native.encode(answer, told)
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    def _answer(self, request: Any, version: int) -> Any:
        made = self.answers.get(type(request).__name__)
        if made is not None:
            return made(request, version)
        assert type(request).__name__ == "ApiVersionsRequest", f"nobody expected {request}"
        rows = [
            m.ApiVersionsResponse_ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return m.ApiVersionsResponse(error_code=35 if version > self.versions[18][1] else 0, api_keys=rows)


_FLEXIBLE_FROM = {0: 9, 1: 12, 2: 6, 3: 9, 18: 3, 20: 4, 22: 2, 32142: 1, 36: 2, 52: 0, 53: 1, 54: 1, 58: 0, 59: 0}


def _flexible(key: int, version: int) -> bool:
    return version >= _FLEXIBLE_FROM.get(key, 1 << 15)
