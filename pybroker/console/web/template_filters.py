"""Template filters that format values for people."""

from __future__ import annotations

import datetime
import re
from itertools import pairwise

from markupsafe import Markup, escape

from pybroker.console.queries.value_decoding import match_positions
from pybroker.wall_clock import wall_ms

COLOURED_CHARACTERS = 100_000
"""Longer texts have only one colour, because browsers are slow with so many elements."""

_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)"
)


def value(text: str, kind: str, wanted: str = "") -> Markup:
    """Return the text of a DecodedValue as HTML. wanted: the searched text, which is marked."""
    is_coloured = kind in ("json", "avro") and len(text) <= COLOURED_CHARACTERS
    tokens = list(_TOKEN.finditer(text)) if is_coloured else []
    marks = match_positions(text, wanted)
    spans = [*(token.span() for token in tokens), *marks]
    cuts = sorted({0, len(text), *(at for span in spans for at in span)})
    parts, at_token, at_mark = [], 0, 0
    for begin, end in pairwise(cuts):
        while at_token < len(tokens) and tokens[at_token].end() <= begin:
            at_token += 1
        while at_mark < len(marks) and marks[at_mark][1] <= begin:
            at_mark += 1
        piece = escape(text[begin:end])
        if at_mark < len(marks) and marks[at_mark][0] <= begin:
            piece = Markup("<mark>{}</mark>").format(piece)
        if at_token < len(tokens) and tokens[at_token].start() <= begin:
            piece = Markup('<span class="json-{}">{}</span>').format(tokens[at_token].lastgroup, piece)
        parts.append(piece)
    return Markup("").join(parts)


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None) -> str:
    """Format 1234567 as 1,234,567; a dash if the number is unknown."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def plain(value: float | None) -> str:
    """Format a number for a script; empty if the number is unknown."""
    return "" if value is None else str(value)


def size(value: int | None) -> str:
    """Format bytes in a readable unit."""
    if value is None or value < 0:
        return "–"
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{value} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def moment(ms: int | None) -> str:
    """Format milliseconds since 1970 in UTC."""
    if ms is None or ms < 0:
        return "–"
    try:
        at = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}Z"


def span(ms: int | None) -> str:
    """Format a duration: 4 d 2 h, 3 min 12 s, 250 ms."""
    if ms is None or ms < 0:
        return "–"
    if ms < 1000:
        return f"{ms} ms"
    left = ms // 1000
    found = []
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, seconds)
        if amount:
            found.append(f"{amount} {unit}")
    return " ".join(found[:2])


def ago(ms: int | None) -> str:
    """Format the time since a moment."""
    return "–" if ms is None or ms < 0 else f"{span(max(wall_ms() - ms, 0))} ago"


def marked(text: str, found: str) -> Markup:
    """Put <mark> around each place where `found` occurs in the text, ignoring case."""
    pieces = re.split(f"({re.escape(found)})", text, flags=re.IGNORECASE) if found else [text]
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if number % 2 else escape(piece) for number, piece in enumerate(pieces)
    )


FILTERS = {
    "ago": ago,
    "marked": marked,
    "moment": moment,
    "number": number,
    "plain": plain,
    "size": size,
    "span": span,
    "value": value,
}
