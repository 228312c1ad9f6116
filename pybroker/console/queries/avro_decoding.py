"""Avro datums and files, measured before fastavro decodes them.

Any client that may write to a topic chooses these bytes; in a file, it also chooses their schema. fastavro has no
limits: ten bytes can declare an array of 2^62 nulls, and deeply nested records overflow the stack, which ends the
process. Therefore this module first counts the values, and refuses data with too many values.

Layout: Apache Avro 1.11, "Binary encoding" and "Object container files".
"""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

VALUES_MAX = 200_000
"""Limit of values in one datum, or in one file on its own page."""
LIST_VALUES_MAX = 5_000
"""Limit of values in one datum in a list. A list may have hundreds of datums."""
DEPTH_MAX = 100
"""Limit of the depth of nested values and of a nested schema."""
BYTES_MAX = 16 << 20
"""Size limit in bytes of an uncompressed block of a file."""
SCHEMA_CHARACTERS_MAX = 200_000
MAGIC = b"Obj\x01"
SYNC_BYTES = 16

_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LONGS = ("int", "long", "enum")


class AvroError(ValueError):
    """The bytes do not match the schema or exceed a limit, or the schema is invalid; the text says which of these."""


def parsed_schema(text: str) -> Any:
    """Parse a schema's JSON text for the other functions. Raises AvroError."""
    fastavro = _fastavro()
    if len(text) > SCHEMA_CHARACTERS_MAX:
        raise AvroError(f"The schema is too long: the limit is {SCHEMA_CHARACTERS_MAX:,} characters.")
    try:
        schema = json.loads(text)
        if _is_deeper(schema, 2 * DEPTH_MAX):  # Allow twice the depth, because braces and brackets alternate.
            raise AvroError(f"The schema is nested too deeply: the limit is {DEPTH_MAX} levels.")
        return fastavro.parse_schema(schema)
    except AvroError:
        raise
    # fastavro raises these for an invalid schema; its own error has no other base class.
    except (fastavro.schema.SchemaParseException, LookupError, TypeError, ValueError, RecursionError) as error:
        raise AvroError(f"This is not an Avro schema: {error}") from None


def datum(data: bytes, schema: Any, values_max: int) -> Any:
    """Decode one bare datum. It must fill all of `data`. Raises AvroError."""
    measure = _Measure(data, _named(schema), values_max)
    measure.value(schema, 0)
    if measure.at != len(data):
        raise AvroError("unread bytes after the value")
    return _read(io.BytesIO(data), schema)


def file(data: bytes, values_max: int) -> list[Any]:
    """Decode the datums of a file, which contains its schema. Raises AvroError."""
    head = _Measure(data, {}, values_max)
    head.skip(len(MAGIC))
    about = head.map_of_bytes()
    sync = head.take(SYNC_BYTES)
    schema = parsed_schema(about.get("avro.schema", b"").decode("utf-8", "replace"))
    codec = about.get("avro.codec", b"null").decode("utf-8", "replace")
    named = _named(schema)
    datums: list[Any] = []
    while head.at < len(data):
        count, block = head.long(), _unpacked(codec, head.take(head.long()))
        if head.take(SYNC_BYTES) != sync:
            raise AvroError("a block does not end with the file's sync marker")
        measure = _Measure(block, named, values_max)
        for _ in range(count):
            measure.value(schema, 0)
        values_max -= measure.values
        stream = io.BytesIO(block)
        datums += [_read(stream, schema) for _ in range(count)]
    return datums


def _unpacked(codec: str, block: bytes) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise AvroError(f"files with codec {codec[:20]!r} cannot be shown; download the record")
    unpacking = zlib.decompressobj(-15)
    try:
        found = unpacking.decompress(block, BYTES_MAX)
    except zlib.error as error:
        raise AvroError(f"invalid deflate block: {error}") from None
    if not unpacking.eof:
        raise AvroError(f"a block is truncated, or larger than {BYTES_MAX >> 20} MiB")
    return found


def _read(stream: io.BytesIO, schema: Any) -> Any:
    try:
        return _fastavro().schemaless_reader(stream, schema, None)
    # Invalid logical types (a date out of range, a malformed decimal or UUID), and text that is not UTF-8.
    except (ArithmeticError, EOFError, LookupError, TypeError, ValueError) as error:
        raise AvroError(f"{type(error).__name__}: {error}") from None


def _named(schema: Any) -> dict[str, Any]:
    """Return the records, enums and fixed types of a parsed schema by full name."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if isinstance(one.get("name"), str) and one.get("type") in ("record", "error", "enum", "fixed"):
                found[one["name"]] = one
            waiting += [one.get(key) for key in ("type", "items", "values")]
            if one.get("type") in ("record", "error"):
                waiting += [field["type"] for field in one["fields"]]
    return found


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether JSON is nested deeper than `levels`. The function is not recursive."""
    here = [value]
    for _ in range(levels):
        here = [
            inner
            for each in here
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not here:
            return False
    return True


class _Measure:
    """Reads bytes according to a schema and counts the values without building them. Every method raises AvroError."""

    def __init__(self, data: bytes, named: dict[str, Any], values_max: int) -> None:
        self.at = self.values = 0
        self._values_max = values_max
        self._data = data
        self._named = named

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self.at:
            raise AvroError("the data ends within a value")
        self.at += size

    def take(self, size: int) -> bytes:
        begin = self.at
        self.skip(size)
        return self._data[begin : self.at]

    def long(self) -> int:
        """Read a zigzag number of up to 64 bits."""
        found = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise AvroError("a number has more than ten bytes")

    def map_of_bytes(self) -> dict[str, bytes]:
        """Read a map, such as the header of a file."""
        found = {}
        while (count := self._count()) != 0:
            for _ in range(count):
                name = self.take(self.long()).decode("utf-8", "replace")
                found[name] = self.take(self.long())
        return found

    def value(self, schema: Any, depth: int) -> None:
        """Read a value of any schema."""
        self.values += 1
        if self.values > self._values_max:
            raise AvroError("too many values to show")
        if depth > DEPTH_MAX:
            raise AvroError(f"nested more than {DEPTH_MAX} levels deep")
        if isinstance(schema, list):
            branch = self.long()
            if not 0 <= branch < len(schema):
                raise AvroError(f"invalid branch {branch} of a union of {len(schema)}")
            return self.value(schema[branch], depth + 1)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(kind, str):
            return self.value(kind, depth + 1)
        if kind in _FIXED_SIZES:
            return self.skip(_FIXED_SIZES[kind])
        if kind in _LONGS:
            self.long()
        elif kind in ("bytes", "string"):
            self.skip(self.long())
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int):  # fastavro accepts any type as the size.
                raise AvroError(f"invalid size of a fixed type: {str(size)[:40]!r}")
            self.skip(size)
        elif kind in ("record", "error"):
            for field in schema["fields"]:
                self.value(field["type"], depth + 1)
        elif kind in ("array", "map"):
            while (count := self._count()) != 0:
                for _ in range(count):
                    if kind == "map":
                        self.skip(self.long())
                    self.value(schema["items" if kind == "array" else "values"], depth + 1)
        elif kind in self._named:
            return self.value(self._named[kind], depth + 1)
        else:
            raise AvroError(f"unknown type {kind[:40]!r}")
        return None

    def _count(self) -> int:
        """Read the number of items in a block. If the number is negative, the block's size follows it."""
        count = self.long()
        if count < 0:
            self.long()
        return abs(count)


def _fastavro() -> Any:
    try:
        import fastavro
    except ModuleNotFoundError:
        raise AvroError("Avro requires an additional package: pip install fastavro") from None
    return fastavro
