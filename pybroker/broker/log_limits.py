"""What keeps clients from filling the log: lines that they cause have a rate and a length.

A line is one of those if it is logged with `extra=BY_CLIENT`. The rate is that of native code's lines of this kind, one
for both, so that a broker writes less than 1 MB of them a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

BY_CLIENT = {"by_client": True}
"""`extra` of a line that a client causes."""

BY_CLIENT_CHARACTERS_MAX = 400
CHARACTERS_MAX = 8_000
"""Of every other line: names of topics and groups are as long as clients like."""


def message_of(record: logging.LogRecord) -> str:
    """Return the text of a line, cut to what it may have."""
    message = record.getMessage()
    most = BY_CLIENT_CHARACTERS_MAX if is_by_client(record) else CHARACTERS_MAX
    return message if len(message) <= most else f"{message[:most]}…"


def is_by_client(record: logging.LogRecord) -> bool:
    """Whether a client has caused it."""
    return getattr(record, "by_client", False)


class ClientLines(logging.Filter):
    """Leaves out lines that clients cause, above their rate. One object filters for all handlers."""

    admit: Callable[[], int | None] = staticmethod(lambda: 0)
    """Native code's limit: how many lines were left out since the last one; None: leave it out."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
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
