"""Avro data from hostile writers and from correct ones."""

from __future__ import annotations

import datetime
import io
import json
import random
import zlib
from typing import Any

import fastavro
import pytest

from pybroker.console.queries.avro_decoding import LIST_VALUES_MAX, VALUES_MAX, AvroError, datum, file, parsed_schema
from pybroker.console.queries.value_decoding import PAGE_CHARACTERS, decode_value

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
WITHIN_ITSELF = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": "Node"}]}
NULLS = {"type": "array", "items": "null"}
EVERYTHING = {
    "type": "record",
    "name": "All",
    "namespace": "a.b",
    "fields": [
        {"name": "plain", "type": {"type": "array", "items": ["null", "boolean", "int", "float", "double", "string"]}},
        {"name": "bytes", "type": "bytes"},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}},
        {"name": "again", "type": ["null", "Suit", {"type": "fixed", "name": "Two", "size": 2}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "inner", "type": ["null", "All"], "default": None},
    ],
}
ROW = {
    "plain": [None, True, -3, 1.5, "ß"],
    "bytes": b"\x00\xff",
    "map": {"a": 1 << 60, "b": -1},
    "suit": "SPADES",
    "again": b"xy",
    "day": datetime.date(2026, 1, 2),
    "inner": None,
}


def bare(schema: Any, value: Any) -> bytes:
    """Return a datum as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def in_file(schema: Any, values: list[Any], codec: str = "null") -> bytes:
    """Return a file as fastavro writes it."""
    out = io.BytesIO()
    fastavro.writer(out, schema, values, codec=codec)
    return out.getvalue()


def number(value: int) -> bytes:
    """Return a positive number as Avro writes it."""
    value, found = value << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def file_of(schema: object, count: int, block: bytes, codec: str = "null") -> bytes:
    """Return a file with one block whose header may contain any size."""
    text = json.dumps(schema).encode()
    head = b"Obj\x01" + number(2)
    for name, value in (("avro.schema", text), ("avro.codec", codec.encode())):
        head += number(len(name)) + name.encode() + number(len(value)) + value
    return head + number(0) + b"s" * 16 + number(count) + number(len(block)) + block + b"s" * 16


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_all_types_are_read_as_they_were_written(codec: str) -> None:
    row = {**ROW, "inner": ROW}
    assert datum(bare(EVERYTHING, row), parsed_schema(json.dumps(EVERYTHING)), VALUES_MAX) == row
    assert file(in_file(EVERYTHING, [row, ROW], codec), VALUES_MAX) == [row, ROW]
    assert file(in_file(EVERYTHING, [], codec), VALUES_MAX) == []


def test_small_bytes_that_claim_many_values_are_refused() -> None:
    most = number((1 << 62) - 1)
    with pytest.raises(AvroError, match="too many values"):
        datum(most, parsed_schema(json.dumps(NULLS)), VALUES_MAX)
    with pytest.raises(AvroError, match="too many values"):
        file(file_of("null", (1 << 62) - 1, b""), VALUES_MAX)
    with pytest.raises(AvroError, match="too many values"):
        file(file_of(NULLS, 1, most), VALUES_MAX)


def test_what_has_no_end_in_depth_is_refused() -> None:
    with pytest.raises(AvroError, match="levels deep"):
        datum(b"\x02" * 1_000_000 + b"\x00", parsed_schema(json.dumps(NODE)), VALUES_MAX)
    with pytest.raises(AvroError, match="levels deep"):
        datum(b"\x00", parsed_schema(json.dumps(WITHIN_ITSELF)), VALUES_MAX)
    for nested in ("[" * 50_000 + '"int"' + "]" * 50_000, '{"type": ' * 300 + '"int"' + "}" * 300):
        with pytest.raises(AvroError):
            parsed_schema(nested)


def test_a_block_that_unpacks_to_too_much_is_refused() -> None:
    packing = zlib.compressobj(9, wbits=-15)
    bomb = packing.compress(b"\x00" * (64 << 20)) + packing.flush()
    with pytest.raises(AvroError, match="larger than 16 MiB"):
        file(file_of("bytes", 1, bomb, "deflate"), VALUES_MAX)
    with pytest.raises(AvroError, match="codec 'snappy' cannot be shown"):
        file(file_of("bytes", 1, b"", "snappy"), VALUES_MAX)


def test_a_list_says_that_a_page_of_its_own_reads_more() -> None:
    schema = parsed_schema('{"type": "array", "items": "int"}')
    data = bare(schema, [7] * (LIST_VALUES_MAX + 1))
    row = decode_value(data, "avro", schema)
    assert (row.kind, row.problem) == ("hex", "not Avro data of this schema: too many values to show")
    assert decode_value(data, "avro", schema, characters=PAGE_CHARACTERS).kind == "avro"


def test_any_bytes_are_shown_or_refused() -> None:
    chance = random.Random(1)
    schemas = [parsed_schema(json.dumps(one)) for one in (EVERYTHING, NODE, NULLS, "bytes", ["null", "string"])]
    sound = [bare(EVERYTHING, {**ROW, "inner": ROW}), in_file(EVERYTHING, [ROW, ROW], "deflate")]
    for _ in range(4_000):
        data = bytearray(chance.choice(sound))
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        assert decode_value(bytes(data[: chance.randrange(1, len(data) + 1)]), "avro", chance.choice(schemas)).text


def test_what_is_no_schema_is_refused() -> None:
    atoms: list[Any] = ["null", "int", "record", "enum", "array", "fixed", "decimal", "x", "", 1, None, True, [], {}]
    keys = ("type", "name", "fields", "items", "values", "symbols", "size", "logicalType", "precision", "aliases")
    chance = random.Random(2)

    def some(depth: int) -> Any:
        if depth > 4 or chance.random() < 0.3:
            return chance.choice(atoms)
        if chance.random() < 0.2:
            return [some(depth + 1) for _ in range(chance.randrange(4))]
        return {key: some(depth + 1) for key in keys if chance.random() < 0.45}

    read = 0
    for _ in range(4_000):
        try:
            schema = parsed_schema(json.dumps(some(0)))
        except AvroError:
            continue
        read += 1
        for _ in range(3):
            assert decode_value(chance.randbytes(chance.randrange(1, 30)), "avro", schema).kind in ("hex", "avro")
    assert read > 100
