"""Values of records as HTML: coloured JSON, marks around the searched text. Everything else is escaped."""

from __future__ import annotations

import re
from itertools import pairwise

from markupsafe import Markup, escape

from pybroker.console.queries.value_decoding import match_positions

COLOURED_CHARACTERS = 100_000
"""Longer texts get one colour: browsers are slow with that many elements."""

_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)"
)


def value(text: str, kind: str, wanted: str = "") -> Markup:
    """Return the text of a DecodedValue as HTML. wanted: the searched text, which gets marks."""
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
