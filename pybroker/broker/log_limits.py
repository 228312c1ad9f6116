"""Prevents clients from filling the log: log lines that they cause have a limited rate and length.

The caller logs such a line with `extra=BY_CLIENT`. These lines, together with such lines of native code, have one rate
limit of 1 MB a minute. The coordinators' lines, about members of groups and transactions, have a separate limit,
because a thousand of them may come at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

BY_CLIENT = {"by_client": True}
"""`extra` of a log call whose line a client causes."""
BY_MEMBER = {"by_member": True}
"""`extra` of a log call outside the coordinators whose line counts as a line of the coordinators: clients cause it by
requests that they are allowed to send."""
COORDINATORS = "pybroker.broker.coordinators."
"""Loggers of the coordinators."""

BY_CLIENT_CHARACTERS_MAX = 400
CHARACTERS_MAX = 8_000
"""Length limit of all other lines: topic and group names can be long."""


def message_of(record: logging.LogRecord) -> str:
    """Return the text of a line, cut at its length limit."""
    message = record.getMessage()
    most = BY_CLIENT_CHARACTERS_MAX if is_by_client(record) or _is_by_member(record) else CHARACTERS_MAX
    return message if len(message) <= most else f"{message[:most]}…"


def is_by_client(record: logging.LogRecord) -> bool:
    """Return whether a client has caused the line."""
    return getattr(record, "by_client", False)


def _is_by_member(record: logging.LogRecord) -> bool:
    # Members never cause an error line: the disk has failed, or the broker has a bug.
    return (record.name.startswith(COORDINATORS) and record.levelno < logging.ERROR) or hasattr(record, "by_member")


class MemberLines:
    """The rate limit of the coordinators' lines: a token bucket."""

    AT_ONCE = 1_000
    A_SECOND = 20

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._at = float(self.AT_ONCE), clock()
        self._left_out = 0

    def admit(self) -> int | None:
        """Return the number of lines dropped since the last admitted one; None if this line must be dropped."""
        now = self._clock()
        self._left = min(self.AT_ONCE, self._left + (now - self._at) * self.A_SECOND)
        self._at = now
        if self._left < 1:
            self._left_out += 1
            return None
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


class ClientLines(logging.Filter):
    """Drops lines that clients cause above the rate limit. All handlers share one filter."""

    def __init__(self) -> None:
        super().__init__()
        self._members = MemberLines()

    admit: Callable[[], int | None] = staticmethod(lambda: 0)
    """Native code's rate limit: a function that returns None if the line must be dropped, else the number of lines
    dropped since the last admitted one.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        by_client = is_by_client(record)
        if not by_client and not _is_by_member(record):
            return True
        admitted: bool | None = getattr(record, "admitted", None)
        if admitted is None:
            left_out = self.admit() if by_client else self._members.admit()
            admitted = record.admitted = left_out is not None
            if left_out:
                what = "connections" if by_client else "members of groups"
                log.warning("%d lines about %s were left out", left_out, what, extra={"event": "log_lines_left_out"})
        return admitted


CLIENT_LINES = ClientLines()
