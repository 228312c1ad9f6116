"""The log: one line per event on standard error, in Kafka's format, with Kafka's levels, which can change at runtime.

Log messages contain text from clients (client ids, topic names, host names). Control characters in a message are
escaped to prevent forged lines. Secret settings never reach the log: the tables of settings mark them
(`ConfigKey.sensitive`).
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from typing import TextIO

from pybroker.broker.log_limits import CLIENT_LINES, message_of
from pybroker.log_topic_names import with_names
from pybroker.printable import printable

TRACE = 5
ROOT = "root"
"""Kafka's name of the root logger (KIP-412)."""

LEVELS: dict[str, int] = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {number: name for name, number in LEVELS.items()}


class KafkaFormatter(logging.Formatter):
    """`[2026-01-31 12:00:00,123] INFO message (pybroker.broker.app)`; a traceback follows on its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = _NAMES.get(record.levelno, record.levelname)
        message = printable(with_names(message_of(record)))
        line = f"[{stamp},{int(record.msecs):03d}] {level} {message} ({record.name})"
        if record.exc_info:
            line = f"{line}\n{printable(self.formatException(record.exc_info), keep=chr(10))}"
        return line


class Tail(logging.Handler):
    """Keeps the last lines in memory. A report about the broker includes them if the location of its log files is
    unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque()
        self._characters = 0

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)[:TAIL_LINE_CHARACTERS_MAX]
        self._lines.append(line)
        self._characters += len(line)
        while self._characters > TAIL_CHARACTERS_MAX:
            self._characters -= len(self._lines.popleft())

    def lines(self) -> list[str]:
        """Return the lines, the oldest first."""
        self.acquire()
        try:
            return list(self._lines)
        finally:
            self.release()


TAIL_CHARACTERS_MAX = 512 * 1024
TAIL_LINE_CHARACTERS_MAX = 16 * 1024
"""Limit of a traceback's size."""


def last_lines() -> list[str]:
    """Return the latest log lines, the oldest first. Empty before `configure_logging` is called."""
    return next((each.lines() for each in logging.getLogger().handlers if isinstance(each, Tail)), [])


def configure_logging(level: str, stream: TextIO | None = None, *, json_lines: bool = False) -> None:
    """Send the lines of all loggers to standard error (or `stream`), from `level` up. This replaces the configuration
    of an earlier call."""
    logging.addLevelName(TRACE, "TRACE")
    logging.addLevelName(logging.WARNING, "WARN")
    logging.addLevelName(logging.CRITICAL, "FATAL")
    handler = logging.StreamHandler(stream or sys.stderr)
    tail = Tail()
    formatter: logging.Formatter = KafkaFormatter()
    if json_lines:
        from pybroker.broker.json_lines import JsonFormatter

        formatter = JsonFormatter(_NAMES)
    for each in (handler, tail):
        each.setFormatter(formatter)
        each.addFilter(CLIENT_LINES)
    root = logging.getLogger()
    root.handlers[:] = [handler, tail]
    root.setLevel(LEVELS[level])
    # asyncio logs its selector at DEBUG for each loop, which is useless to an operator.
    logging.getLogger("asyncio").setLevel(max(LEVELS[level], logging.INFO))


def logger_levels() -> dict[str, str]:
    """Return every known logger with its effective level. The root logger has Kafka's name."""
    loggers = {ROOT: logging.getLogger()}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            loggers[name] = logger
    return {name: _name_of(logger.getEffectiveLevel()) for name, logger in sorted(loggers.items())}


def _name_of(number: int) -> str:
    """Return the nearest of Kafka's levels that is at least as severe as `number`."""
    return next((name for name, known in LEVELS.items() if known >= number), "FATAL")


def is_logger(name: str) -> bool:
    """Return whether a logger of this name exists, without creating it."""
    return name == ROOT or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_logger_level(name: str, level: str | None) -> None:
    """Set a logger's level. With None, the logger inherits its level again."""
    logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
    logger.setLevel(LEVELS[level] if level is not None else logging.NOTSET)
