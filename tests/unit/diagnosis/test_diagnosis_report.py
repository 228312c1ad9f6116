"""The report of a broker whose loop hangs, and the diagnosis socket if one of the two processes misbehaves."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pybroker.broker.logs import TAIL_CHARACTERS_MAX, Tail, last_lines
from pybroker.broker.metadata.metadata_store import Node, UnavailableError
from pybroker.broker.observability.diagnosis import diagnosis_report as reports
from pybroker.broker.observability.diagnosis.diagnosis_report import Subject, report
from pybroker.broker.observability.diagnosis.diagnosis_socket import FILE_NAME, DiagnosisSocket, ask
from pybroker.config import load_config

LIMIT_S = 60.0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield a loop that runs on its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT_S)
    loop.close()


async def metrics() -> str:
    return "up 1\n"


async def metadata() -> Mapping[str, Node]:
    raise UnavailableError("the ensemble is away")


async def quorum() -> None:
    """Return None: there is no quorum."""


def subject(loop: asyncio.AbstractEventLoop) -> Subject:
    return Subject(load_config(settings={"ssl.key.password": "not-for-you"}).config, loop, metrics, metadata, quorum)


def test_a_loop_that_hangs(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "LOOP_S", 0.05)
    released, hangs = threading.Event(), threading.Event()

    def hang_here() -> None:
        hangs.set()
        released.wait(LIMIT_S)

    loop.call_soon_threadsafe(hang_here)
    assert hangs.wait(LIMIT_S)
    try:
        found = report(subject(loop))
    finally:
        released.set()
    assert set(found["problems"]) == {"metrics", "metadata", "quorum"}
    assert "hang_here" in found["threads"]
    assert found["settings"]["ssl.key.password"]["value"] == "[hidden]"


def test_what_fails_is_told(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    served = DiagnosisSocket(tmp_path, lambda: subject(loop))
    served.start()
    try:
        found = ask(tmp_path)
    finally:
        served.stop()
    assert found is not None
    assert found["problems"] == {"metadata": "the ensemble is away"}
    assert found["metrics"] == "up 1\n"
    assert ask(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_second_broker_takes_no_place(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    first, second = (DiagnosisSocket(tmp_path, lambda: subject(loop)) for _ in range(2))
    first.start()
    second.start()
    second.stop()
    try:
        assert ask(tmp_path) is not None
    finally:
        first.stop()


def test_no_directory_and_no_right(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    away = DiagnosisSocket(tmp_path / "away", lambda: pytest.fail("nobody asks"))
    away.start()
    away.stop()
    (tmp_path / FILE_NAME).mkdir()
    with caplog.at_level(logging.WARNING):
        DiagnosisSocket(tmp_path, lambda: pytest.fail("nobody asks")).start()
    assert FILE_NAME in caplog.text


def test_what_is_no_report(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / FILE_NAME))
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"nonsense")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OSError, match="received no report but 8 bytes"):
            ask(tmp_path)
        thread.join(LIMIT_S)


def test_the_log_that_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tail, root = Tail(), logging.getLogger()
    monkeypatch.setattr(root, "handlers", [tail])
    assert last_lines() == []
    for number in range(1_000):
        root.error("%d %s", number, "x" * 1_000)
    kept = last_lines()
    assert kept[-1].startswith("999 ")
    assert TAIL_CHARACTERS_MAX * 0.9 < sum(map(len, kept)) <= TAIL_CHARACTERS_MAX
