"""Lines of the log."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker import log_topic_names
from pybroker.broker import logs
from pybroker.broker.json_lines import EVENTS, event_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def console() -> Iterator[io.StringIO]:
    """Yield the log lines; the root logger is restored afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure_logging("INFO", stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def test_json(console: io.StringIO) -> None:
    logs.configure_logging("INFO", console, json_lines=True)
    log = logging.getLogger("pybroker.test")
    log.warning("disk %s is slow: %d ms\n", "/a", 7)
    log.info("%s", "topic-0: a copy of 17 bytes (of 20) is removed")
    log.info("named", extra={"event": "disk_full"})
    log.info("topic moved name=%s size=%d: %s", "orders", 7, "because")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("it failed")
    lines = [json.loads(line) for line in console.getvalue().splitlines()]
    events = [line["event"] for line in lines]
    assert events == ["disk_is_slow_ms", "a_copy_of_bytes_is_removed", "disk_full", "topic_moved", "it_failed"]
    assert lines[0]["message"] == "disk /a is slow: 7 ms\n"
    assert (lines[0]["level"], lines[0]["logger"]) == ("WARN", "pybroker.test")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[0]["time"])
    assert "ValueError: broken" in lines[4]["error"]


def test_known_sentences_have_fixed_names() -> None:
    sources = "".join(path.read_text() for path in (*ROOT.glob("native/*/src/**/*.rs"), *ROOT.glob("pybroker/**/*.py")))
    documented = (ROOT / "docs" / "operations.md").read_text()
    for words, event in EVENTS:
        for part in words.split("*"):
            assert sources.count(part) > 1, f"nobody says {part!r} any more"
        assert f"`{event}`" in documented
        said = f"topic-0 {words.replace('*', ' 127.0.0.1:9 ')} and more"
        assert name_of(said) == event
        assert name_of(f'client id "\\"{words}\\"" did nothing') == "client_id_did_nothing"


def name_of(sentence: str) -> str:
    """Return the event of an unformatted sentence."""
    return event_of(logging.LogRecord("pybroker.native", logging.INFO, "", 0, "%s", (sentence,), None), sentence)


def test_shape(console: io.StringIO) -> None:
    logging.getLogger("pybroker.test").warning("disk %s", "slow")
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] WARN disk slow \(pybroker\.test\)\n", console.getvalue()
    )


@pytest.mark.parametrize("hostile", ["a\nb", "a\r\nb", "\x1b[2J", "\u2028", "\x85", "\x00"])
def test_nobody_forges_a_line(console: io.StringIO, hostile: str) -> None:
    logging.getLogger("pybroker.test").warning("client %s", hostile)
    (line,) = console.getvalue().splitlines()
    assert line.endswith("(pybroker.test)")
    assert hostile not in line


def test_tracebacks_stay_readable(console: io.StringIO) -> None:
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logging.getLogger("pybroker.test").exception("trouble")
    assert "\nTraceback (most recent call last):\n" in console.getvalue()


def test_levels(console: io.StringIO) -> None:
    logger = logging.getLogger("pybroker.test.levels")
    logger.debug("unheard")
    logs.set_logger_level("pybroker.test.levels", "TRACE")
    logger.log(logs.TRACE, "heard")
    assert logs.logger_levels()["pybroker.test.levels"] == "TRACE"
    logs.set_logger_level("pybroker.test.levels", None)
    assert logs.logger_levels()["pybroker.test.levels"] == "INFO"
    logs.set_logger_level(logs.ROOT, "FATAL")
    assert logs.logger_levels()["pybroker.test.levels"] == "FATAL"
    assert "TRACE heard" in console.getvalue()
    assert "unheard" not in console.getvalue()


def test_asking_for_a_logger_does_not_make_one() -> None:
    assert not logs.is_logger("pybroker.nobody")
    assert not logs.is_logger("pybroker.nobody")
    assert logs.is_logger(logs.ROOT)


@pytest.mark.checklist(59)
def test_a_topic_id_has_its_name_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"qHnVQnx0RayPTxby6GkaAQ": "orders"}
    monkeypatch.setattr(log_topic_names, "_name_of", names.get)
    for message, expected in (
        ("qHnVQnx0RayPTxby6GkaAQ-3, led by broker 2", "qHnVQnx0RayPTxby6GkaAQ-3 (topic orders), led by broker 2"),
        ("topic orders (id qHnVQnx0RayPTxby6GkaAQ)", "topic orders (id qHnVQnx0RayPTxby6GkaAQ)"),
        ("preorders of qHnVQnx0RayPTxby6GkaAQ", "preorders of qHnVQnx0RayPTxby6GkaAQ (topic orders)"),
        ("xqHnVQnx0RayPTxby6GkaAQ, AAAAAAAAAAAAAAAAAAAAAA", "xqHnVQnx0RayPTxby6GkaAQ, AAAAAAAAAAAAAAAAAAAAAA"),
    ):
        assert log_topic_names.with_names(message) == expected
