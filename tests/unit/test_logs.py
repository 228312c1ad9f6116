"""Lines of the log."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from pybroker import logs


@pytest.fixture
def console() -> Iterator[io.StringIO]:
    """What the log says; the root logger is put back afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure_logging("INFO", stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


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
