"""Well-formed requests of every served API and version, and ways to corrupt them. The same seed gives the same bytes.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from pybroker import native

TOPIC = "hostile"
NUMBERS = (0, 1, 2, 5, -1, -2, 100, 2**15 - 1, 2**31 - 1)
TEXTS = ("", TOPIC, "x" * 300, "__consumer_offsets", "../../etc", "\u00e9\u4e2d")
EXTREMES = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\x00\x01",
)  # fmt: skip

Fields = dict[str, list[native.FieldSchema]]
"""Name of a message class → its fields."""


def _message(name: str, chance: random.Random) -> object:
    """Return a message with every field of every version filled."""
    schema = native.message_schema(name)
    assert schema is not None, name
    return _struct(name, {one.name: one.fields for one in schema.structs}, chance)


def _struct(name: str, fields: Fields, chance: random.Random) -> object:
    cls = native.message_class(name)
    assert cls is not None, name
    return cls(
        **{
            field.name: _value(field.type_name, field.nullable[0] <= field.nullable[1], fields, chance)
            for field in fields[name]
        }
    )


def _value(kind: str, nullable: bool, fields: Fields, chance: random.Random) -> object:
    if nullable and chance.random() < 0.1:
        return None
    if kind.startswith("[]"):
        return [_value(kind[2:], False, fields, chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "int8":
            return chance.choice((0, 1, -1, 127))
        case "int16":
            return chance.choice((0, 1, -1, 32767))
        case "uint16" | "uint32":
            return chance.choice((0, 1, 65535))
        case "int32" | "int64":
            return chance.choice(NUMBERS)
        case "float64":
            return chance.random()
        case "string":
            return chance.choice(TEXTS)
        case "uuid":
            return native.Uuid.from_bytes(chance.randbytes(16))
        case "bytes":
            return chance.randbytes(chance.randrange(40))
        case "records":
            return _batch(chance)
        case _:
            return _struct(kind, fields, chance)


def _batch(chance: random.Random) -> bytes:
    """Return a correct batch, or sometimes one with a wrong byte."""
    count = chance.choice((1, 2, 10))
    batch = bytearray(native.build_batch([(b"key", chance.randbytes(20)) for _ in range(count)], 1_700_000_000_000))
    if chance.random() < 0.5:
        batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
    return bytes(batch)


def requests(chance: random.Random) -> Iterator[bytes]:
    """Yield requests (header and body, no length) without end: all served APIs and versions, in random order."""
    served = [row for row in native.api_table() if row.served]
    while True:
        row = chance.choice(served)
        version = chance.randint(row.min_version, row.max_version)
        try:
            message = _message(f"{row.name}Request", chance)
            yield native.encode_request(message, version, chance.randrange(2**31), "hostile")
        except native.CodecError:
            continue  # this version cannot carry a field that was filled


def spoiled(request: bytes, chance: random.Random) -> bytes:
    """The request with a few bytes changed, removed, doubled or replaced by an extreme length."""
    bytes_ = bytearray(request)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(bytes_)) if bytes_ else 0
        match chance.randrange(6):
            case 0 if bytes_:
                bytes_[at] ^= 1 << chance.randrange(8)
            case 1:
                del bytes_[at:]
            case 2:
                bytes_[at : at + 4] = chance.choice(EXTREMES)
            case 3:
                bytes_[at:at] = chance.randbytes(chance.randrange(1, 12))
            case 4:
                bytes_ += bytes_[at : at + 64]
            case _:
                bytes_[at : at + 8] = chance.randbytes(8)
    return bytes(bytes_)


def framed(request: bytes, chance: random.Random) -> bytes:
    """Prefix the length; one in twenty lengths is wrong."""
    length = len(request)
    if chance.random() < 0.05:
        length = chance.choice((-1, 0, 3, length - 1, length + 7, 2**31 - 1, -(2**31)))
    return struct.pack(">i", length) + request
