"""Reads Kafka's primitive types from bytes that others wrote: every length is checked against what remains."""

from __future__ import annotations

import struct

from pybroker.native import Uuid

_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class Malformed(Exception):
    """The bytes are not what their format says."""


class BytesReader:
    """A cursor over bytes. Every read raises Malformed instead of running past the end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._position

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count < 0 or count > self.remaining:
            raise Malformed(f"{count} bytes wanted, {self.remaining} left")
        start = self._position
        self._position = start + count
        return self._data[start : self._position]

    def _fixed(self, layout: struct.Struct) -> int:
        value: int = layout.unpack(self.take(layout.size))[0]
        return value

    def int8(self) -> int:
        """A signed 8-bit number."""
        return self._fixed(_I8)

    def int16(self) -> int:
        """A signed 16-bit number."""
        return self._fixed(_I16)

    def int32(self) -> int:
        """A signed 32-bit number."""
        return self._fixed(_I32)

    def int64(self) -> int:
        """A signed 64-bit number."""
        return self._fixed(_I64)

    def uvarint(self) -> int:
        """An unsigned variable-length number of at most 32 bits."""
        return self._variable(32)

    def varlong(self) -> int:
        """A signed variable-length number of at most 64 bits, zigzag, as records use them."""
        value = self._variable(64)
        return (value >> 1) ^ -(value & 1)

    def _variable(self, bits: int) -> int:
        value = 0
        for shift in range(0, bits + 3, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return value
        raise Malformed(f"a variable-length number is longer than {bits} bits")

    def uuid(self) -> Uuid:
        """16 bytes."""
        return Uuid.from_bytes(self.take(16))

    def count(self, least_bytes_each: int) -> int:
        """The length of an array of the old encoding; refused when its elements cannot fit into what remains."""
        return self._checked_count(self.int32(), least_bytes_each)

    def compact_count(self, least_bytes_each: int) -> int:
        """The length of an array of the flexible encoding."""
        return self._checked_count(self.uvarint() - 1, least_bytes_each)

    def _checked_count(self, count: int, least_bytes_each: int) -> int:
        if count < 0 or count * least_bytes_each > self.remaining:
            raise Malformed(f"an array of {count} elements in {self.remaining} bytes")
        return count

    def compact_int32s(self) -> tuple[int, ...]:
        """An array of signed 32-bit numbers of the flexible encoding; null reads as empty."""
        length = self.uvarint()
        return tuple(self.int32() for _ in range(self._checked_count(length - 1, 4))) if length else ()

    def string(self) -> str:
        """A string of the old encoding that may not be null."""
        value = self.nullable_string()
        if value is None:
            raise Malformed("null where a string is due")
        return value

    def nullable_string(self) -> str | None:
        """A string of the old encoding; −1 is null."""
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        """A string of the flexible encoding that may not be null."""
        value = self.compact_nullable_string()
        if value is None:
            raise Malformed("null where a string is due")
        return value

    def compact_nullable_string(self) -> str | None:
        """A string of the flexible encoding; 0 is null."""
        length = self.uvarint()
        return None if length == 0 else self._text(length - 1)

    def _text(self, length: int) -> str:
        raw = self.take(length)
        try:
            return raw.decode()
        except UnicodeDecodeError as problem:
            raise Malformed("a string is not UTF-8") from problem

    def blob(self) -> bytes:
        """Bytes of the old encoding; null reads as empty."""
        length = self.int32()
        return b"" if length == -1 else self.take(length)

    def compact_blob(self) -> bytes:
        """Bytes of the flexible encoding; null reads as empty."""
        length = self.uvarint()
        return b"" if length == 0 else self.take(length - 1)

    def tags(self) -> dict[int, bytes]:
        """Tagged fields: tag → raw bytes."""
        found: dict[int, bytes] = {}
        for _ in range(self._checked_count(self.uvarint(), 2)):
            tag = self.uvarint()
            found[tag] = self.take(self.uvarint())
        return found


class BytesWriter:
    """Writes Kafka's primitive types."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def finish(self) -> bytes:
        """All that was written."""
        return b"".join(self._parts)

    def raw(self, data: bytes) -> BytesWriter:
        """Bytes as they are."""
        self._parts.append(data)
        return self

    def int16(self, value: int) -> BytesWriter:
        """A signed 16-bit number."""
        return self.raw(_I16.pack(value))

    def int32(self, value: int) -> BytesWriter:
        """A signed 32-bit number."""
        return self.raw(_I32.pack(value))

    def int64(self, value: int) -> BytesWriter:
        """A signed 64-bit number."""
        return self.raw(_I64.pack(value))

    def uvarint(self, value: int) -> BytesWriter:
        """An unsigned variable-length number."""
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return self.raw(bytes(out))

    def string(self, value: str) -> BytesWriter:
        """A string of the old encoding."""
        data = value.encode()
        return self.int16(len(data)).raw(data)

    def compact_string(self, value: str | None) -> BytesWriter:
        """A string of the flexible encoding; None is null."""
        if value is None:
            return self.uvarint(0)
        data = value.encode()
        return self.uvarint(len(data) + 1).raw(data)

    def compact_blob(self, value: bytes) -> BytesWriter:
        """Bytes of the flexible encoding."""
        return self.uvarint(len(value) + 1).raw(value)

    def tags(self, fields: dict[int, bytes]) -> BytesWriter:
        """Tagged fields in ascending order."""
        self.uvarint(len(fields))
        for tag in sorted(fields):
            self.uvarint(tag).uvarint(len(fields[tag])).raw(fields[tag])
        return self
