"""Kafka's compact primitives, read from bytes that others wrote: every length is checked against what remains."""

from __future__ import annotations

import struct

from pybroker.native import Uuid


class Malformed(Exception):
    """The bytes are not what their format says."""


class Reader:
    """A cursor over bytes. Every read raises Malformed instead of running past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count < 0 or count > self.remaining:
            raise Malformed(f"{count} bytes wanted, {self.remaining} left")
        start = self._at
        self._at += count
        return self._data[start : self._at]

    def number(self, layout: str) -> int:
        """A big-endian number: b, h, i or q."""
        value: int = struct.unpack(">" + layout, self.take(struct.calcsize(">" + layout)))[0]
        return value

    def unsigned(self) -> int:
        """An unsigned varint of at most 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed("a varint does not end")

    def signed(self) -> int:
        """A zigzag varint, as records use."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def uuid(self) -> Uuid:
        """16 bytes."""
        high, low = struct.unpack(">QQ", self.take(16))
        return Uuid(high, low)

    def text(self) -> str:
        """A compact string."""
        found = self.optional_text()
        if found is None:
            raise Malformed("a string is null")
        return found

    def optional_text(self) -> str | None:
        """A compact nullable string."""
        length = self.unsigned()
        if length == 0:
            return None
        try:
            return self.take(length - 1).decode("utf-8")
        except UnicodeDecodeError as problem:
            raise Malformed(str(problem)) from None

    def numbers(self) -> tuple[int, ...]:
        """A compact array of int32; null reads as empty."""
        count = self.unsigned()
        if count == 0:
            return ()
        if (count - 1) * 4 > self.remaining:
            raise Malformed(f"{count - 1} numbers in {self.remaining} bytes")
        return tuple(self.number("i") for _ in range(count - 1))

    def tags(self) -> dict[int, bytes]:
        """Tagged fields by number."""
        found = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            found[tag] = self.take(self.unsigned())
        return found
