"""Texts for a terminal or a log: escaped text from clients, and times."""

from __future__ import annotations

import datetime
import re

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control codes, line separators, changes of direction, and lone surrogates, which no stream encodes."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, keep: str = "") -> str:
    """Return the text with controls as escapes (`\\x1b`, `\\u202e`), except those in `keep`.

    Clients choose client ids, group ids and principals. A name must not recolour a terminal, change its title or forge
    a line.
    """
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def time_text(wall_ms: int) -> str:
    """Return a time as in log lines and error messages: UTC, to the second."""
    return datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
