"""/metrics, /healthz, /readyz, and other requests to that port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from pybroker.broker.observability import metrics_server
from pybroker.broker.observability.metric import Metric, add_metrics, identity_metrics
from pybroker.native import MetricFamilies


class RunningServer(NamedTuple):
    """A server, and the values on which its responses depend."""

    port: int
    state: dict[str, object]

    async def ask(self, request: bytes) -> bytes:
        """Read until the server closes; closing with unread bytes resets the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(), 30)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@pytest_asyncio.fixture
async def served() -> AsyncIterator[RunningServer]:
    state: dict[str, object] = {"ready": False, "metrics": "up 1\n"}

    async def metrics() -> str:
        text = state["metrics"]
        if not isinstance(text, str):
            raise RuntimeError("broken")
        return text

    server = metrics_server.MetricsServer(
        "127.0.0.1", 0, metrics, lambda: None if state["ready"] else "clients are not served"
    )
    _, port = await server.start()
    yield RunningServer(port, state)
    server.stop()


async def test_answers(served: RunningServer) -> None:
    assert (await served.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.0 200 OK\r\n")
    assert (await served.ask(b"GET /readyz HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 503 ")
    served.state["ready"] = True
    assert (await served.ask(b"GET /readyz HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 200 ")
    answer = await served.ask(b"GET /metrics?x=y HTTP/1.1\r\n\r\n")
    assert b"version=0.0.4" in answer
    assert answer.endswith(b"\r\n\r\nup 1\n")
    assert (await served.ask(b"HEAD /metrics HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET / HTTP/1.1", b"404"),
        (b"GET /metrics/../../etc/passwd HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"GET /metrics", b"400"),
        (b"\x16\x03\x01\x02\x00\x01", b"400"),
        (b"", b"400"),
    ],
)
async def test_anything_else(served: RunningServer, request_head: bytes, status: bytes) -> None:
    answer = await served.ask(request_head + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 " + status)


async def test_a_head_without_end_is_cut_off(served: RunningServer) -> None:
    assert await served.ask(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * (2 * metrics_server.HEAD_BYTES_MAX)) == b""


async def test_silence_is_cut_off(served: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "HEAD_SECONDS_MAX", 0.05)
    assert await served.ask(b"GET ") == b""


async def test_silent_connections_give_way_to_a_probe(served: RunningServer) -> None:
    """There are more silent connections than allowed: the oldest are closed, and a probe is answered."""
    silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(2 * metrics_server.HEADS_MAX)]
    assert (await served.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.0 200 ")
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(silent[0][0].read(), 30) == b""
    for _, writer in silent:
        writer.close()


async def test_too_many_scrapes_leave_probes_their_place(
    served: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "SCRAPES_MAX", 0)
    assert await served.ask(b"GET /metrics HTTP/1.1\r\n\r\n") == b""
    assert (await served.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.0 200 ")


async def test_a_bug_in_a_metric_is_an_error_not_a_crash(served: RunningServer) -> None:
    served.state["metrics"] = None
    assert (await served.ask(b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.0 500 ")
    assert (await served.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.0 200 ")


def text_of(metrics: list[Metric]) -> str:
    families = MetricFamilies()
    add_metrics(families, metrics)
    return families.text()


def test_text_format() -> None:
    gauges = [
        Metric("a", "First.", lambda: 1.5, {"x": 'quote " backslash \\ line \n end'}),
        Metric("a", "First.", lambda: 2, {"x": "other"}),
        Metric("b", "Second.", lambda: 3.0),
    ]
    assert text_of(gauges) == (
        "# HELP a First.\n# TYPE a gauge\n"
        'a{x="quote \\" backslash \\\\ line \\n end"} 1.5\n'
        'a{x="other"} 2\n'
        "# HELP b Second.\n# TYPE b gauge\nb 3\n"
    )
    assert text_of([]) == ""


def test_identity() -> None:
    text = text_of(identity_metrics("abc", 1, "0.1"))
    assert 'kafka_server_kafkaserver_clusterid_info{cluster_id="abc"} 1' in text
