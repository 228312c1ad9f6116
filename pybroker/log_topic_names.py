"""Adds topic names to log lines, because native code (mainly followers) knows topics only by their ids."""

from __future__ import annotations

import re
from collections.abc import Callable

_ID = re.compile(r"(?<![\w-])([A-Za-z0-9_-]{22})(-\d+)?(?![\w-])")
"""The text of a topic id, or of a partition of it."""



def _unknown(text: str) -> str | None:
    """Return None. This is the default function until a broker knows its cluster."""
    del text
    return None


_name_of: Callable[[str], str | None] = _unknown


def use_names(name_of: Callable[[str], str | None]) -> None:
    """Set the function that returns a topic's name. The function gets 22 characters that may be a topic id, and may be
    called on any thread."""
    global _name_of  # noqa: PLW0603 - one log, one cluster in a process
    _name_of = name_of


def with_names(message: str) -> str:
    """Return the message with ` (topic NAME)` after each topic id, unless the message already contains the name."""

    def named(match: re.Match[str]) -> str:
        name = _name_of(match[1])
        if name is None or re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", message):
            return match[0]
        return f"{match[0]} (topic {name})"

    return _ID.sub(named, message)
