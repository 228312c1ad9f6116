"""Decoding of records' bytes: JSON, Avro, text, or hexadecimal digits."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

from pybroker.console.queries import avro_decoding

LIST_CHARACTERS = 2_000
"""Limit of characters of a value in a list. The record's own page shows more."""
FOLD_CHARACTERS = 240
FOLD_LINES = 4
"""Limit of lines of a value in a list. Longer values are folded."""
BEFORE_CHARACTERS = 60
"""Number of characters that are shown before the searched text if the value is cut."""
PAGE_CHARACTERS = 500_000
HEX_BYTES = 1_024
LOOSE_CHARACTERS = 200
FORMATS = ("auto", "json", "avro", "text", "hex")
HEADER_BYTES = 5
"""Length of the header that schema-registry serializers write: a zero byte and the schema's number."""


class DecodeError(ValueError):
    """The bytes do not have the requested format; the text says why."""


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """The text of a key, a value or a header. kind: null, empty, json, avro, text or hex. cut: the text is incomplete.
    preview: the part of a long text that a list shows before it is unfolded.
    """

    kind: str
    text: str
    size: int
    cut: bool = False
    problem: str | None = None
    preview: str | None = None


def decode_value(
    data: bytes | None, how: str = "auto", schema: Any = None, *, characters: int = LIST_CHARACTERS, around: str = ""
) -> DecodedValue:
    """Decode a value. `how`: one of FORMATS. If the bytes do not have this format, the text contains hexadecimal digits
    and the reason. JSON is compact in a list, and indented on the record's own page and when unfolded. around: a cut
    text begins shortly before this text."""
    is_listed = characters <= LIST_CHARACTERS
    indent = None if is_listed else 2
    if data is None:
        return DecodedValue("null", "", 0)
    if not data:
        return DecodedValue("empty", "", 0)
    problem = None
    try:
        kind, text = _read(data, how, schema, indent)
    except DecodeError as error:
        kind, text, problem = "hex", hexadecimal(data), str(error)
    preview = None
    if is_listed and (len(text) > FOLD_CHARACTERS or text.count("\n") >= FOLD_LINES):
        preview = "\n".join(_window(text, FOLD_CHARACTERS, around).split("\n")[:FOLD_LINES])
        if kind in ("json", "avro"):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    if kind == "hex":
        return DecodedValue("hex", text, len(data), len(data) > HEX_BYTES, problem, preview)
    return DecodedValue(kind, _window(text, characters, around), len(data), len(text) > characters, None, preview)


def _window(text: str, characters: int, around: str) -> str:
    """Return the beginning of a text, or the part from shortly before the searched text."""
    if len(text) <= characters:
        return text
    found = match_positions(text, around)
    if not found or found[0][1] <= characters:
        return text[:characters]
    begin = max(found[0][0] - BEFORE_CHARACTERS, 0)
    return "…" + text[begin : begin + characters - 1]


def match_positions(text: str, wanted: str) -> list[tuple[int, int]]:
    """Return the positions of `wanted` in a text. The search compares the stored bytes, but pages show JSON as Python
    formats it. Therefore, if there is no exact match, blanks between the characters are ignored."""
    if not wanted.strip():
        return []
    exact = [match.span() for match in re.finditer(re.escape(wanted), text)]
    if exact or text[:1] not in ("{", "[") or len(wanted) > LOOSE_CHARACTERS:
        return exact
    loose = r"\s*".join(re.escape(each) for each in wanted if not each.isspace())
    return [match.span() for match in re.finditer(loose, text)]


def _read(data: bytes, how: str, schema: Any, indent: int | None) -> tuple[str, str]:
    if how == "hex":
        return "hex", hexadecimal(data)
    if how == "avro":
        return "avro", _avro(data, schema, indent)
    if how == "json":
        return "json", _json(data, indent)
    text = _text(data)
    if how == "text":
        if text is None:
            raise DecodeError("not UTF-8")
        return "text", text
    if text is not None and text.lstrip()[:1] in ("{", "["):
        try:
            return "json", _json(data, indent)
        except DecodeError:
            return "text", text
    if text is None and schema is not None:
        try:
            return "avro", _avro(data, schema, indent)
        except DecodeError:
            return "hex", hexadecimal(data)
    return ("hex", hexadecimal(data)) if text is None else ("text", text)


def _text(data: bytes) -> str | None:
    """Decode UTF-8. Return None for other bytes, and for text with control characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if any(ord(each) < 32 and each not in "\t\n\r" for each in text) else text


def _json(data: bytes, indent: int | None) -> str:
    try:
        return json.dumps(json.loads(data), indent=indent, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from None


def _avro(data: bytes, schema: Any, indent: int | None) -> str:
    """Decode an Avro file with its schema, or one datum. The datum may begin with the five bytes of schema-registry
    serializers.
    """
    values_max = avro_decoding.LIST_VALUES_MAX if indent is None else avro_decoding.VALUES_MAX
    try:
        if data.startswith(avro_decoding.MAGIC):
            return _as_json(avro_decoding.file(data, values_max), indent)
        if schema is None:
            raise DecodeError("Avro requires a schema; set one on the topic's messages page")
        if data[0] == 0 and len(data) > HEADER_BYTES:
            # If the bytes after the header are not a valid datum, the first five bytes are not a header.
            with contextlib.suppress(avro_decoding.AvroError):
                return _as_json(avro_decoding.datum(data[HEADER_BYTES:], schema, values_max), indent)
        return _as_json(avro_decoding.datum(data, schema, values_max), indent)
    except avro_decoding.AvroError as error:
        raise DecodeError(f"not Avro data of this schema: {error}") from None


def _as_json(value: Any, indent: int | None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time | decimal.Decimal | uuid.UUID):
        return str(value)
    raise TypeError(type(value).__name__)


def hexadecimal(data: bytes) -> str:
    """Return sixteen bytes per line: offset, digits, letters."""
    lines = []
    for begin in range(0, min(len(data), HEX_BYTES), 16):
        row = data[begin : begin + 16]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{begin:06x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(lines)
