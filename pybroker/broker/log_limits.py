"""Prevents clients from filling the log: log lines that they cause have a limited rate and length.

Those lines are logged with `extra=BY_CLIENT`. They share one rate limit with native code's lines of this kind, which
keeps them below 1 MB a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

BY_CLIENT = {"by_client": True}
"""`extra` of a line that a client causes."""

BY_CLIENT_CHARACTERS_MAX = 400
CHARACTERS_MAX = 8_000
"""Limit of all other lines: topic and group names can be long."""


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
    """Native code's rate limit: returns the number of dropped lines since the last admitted one, or None to drop the
    line."""

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
