"""Names for topic ids in log lines. Native code, followers above all, knows a topic by its id only."""

from __future__ import annotations

import re
from collections.abc import Callable

_ID = re.compile(r"(?<![\w-])([A-Za-z0-9_-]{22})(-\d+)?(?![\w-])")
"""An id, or a partition of it."""



def _unknown(text: str) -> str | None:
    """Until a broker knows its cluster."""
    del text
    return None


_name_of: Callable[[str], str | None] = _unknown


def use_names(name_of: Callable[[str], str | None]) -> None:
    """Take names from there: it gets 22 characters that may be a topic id, on any thread."""
    global _name_of  # noqa: PLW0603 - one log, one cluster in a process
    _name_of = name_of


def with_names(message: str) -> str:
    """The message with ` (topic NAME)` behind each topic id whose name it does not have itself."""

    def named(match: re.Match[str]) -> str:
        name = _name_of(match[1])
        if name is None or re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", message):
            return match[0]
        return f"{match[0]} (topic {name})"

    return _ID.sub(named, message)
