"""Prevents clients from filling the log: log lines that they cause have a limited rate and length.

The caller logs such a line with `extra=BY_CLIENT`. These lines and native code's lines of this kind share one rate
limit, which keeps them below 1 MB a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

BY_CLIENT = {"by_client": True}
"""`extra` of a log call whose line a client causes."""

BY_CLIENT_CHARACTERS_MAX = 400
CHARACTERS_MAX = 8_000
"""Length limit of all other lines: topic and group names can be long."""


def message_of(record: logging.LogRecord) -> str:
    """Return the text of a line, cut to its limit."""
    message = record.getMessage()
    most = BY_CLIENT_CHARACTERS_MAX if is_by_client(record) else CHARACTERS_MAX
    return message if len(message) <= most else f"{message[:most]}…"


def is_by_client(record: logging.LogRecord) -> bool:
    """Return whether a client has caused the line."""
    return getattr(record, "by_client", False)


class ClientLines(logging.Filter):
    """Drops lines that clients cause above the rate limit. All handlers share one filter."""

    admit: Callable[[], int | None] = staticmethod(lambda: 0)
    """Native code's rate limit: a function that returns None if the line must be dropped, else the number of lines
    dropped since the last admitted one.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        if not is_by_client(record):
            return True
        admitted: bool | None = getattr(record, "admitted", None)
        if admitted is None:
            left_out = self.admit()
            admitted = record.admitted = left_out is not None
            if left_out:
                log.warning("%d lines about connections were left out", left_out, extra={"event": "log_lines_left_out"})
        return admitted


CLIENT_LINES = ClientLines()
