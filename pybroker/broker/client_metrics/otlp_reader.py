"""Reads sums and gauges by name from OpenTelemetry's MetricsData in protobuf's wire format. Pure.

It reads only the few fields with names and numbers and skips all others, histograms included.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from math import isfinite

import msgspec

FIELDS_MAX = 50_000
"""Limit of fields in one push. A client with a thousand metrics stays below it. Reading this many fields takes about 40
ms."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,199}")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RESOURCE_METRICS, _SCOPE_METRICS, _METRICS = 1, 2, 2
_NAME_FIELD, _GAUGE, _SUM = 1, 5, 7
_POINTS, _TEMPORALITY = 1, 2
_AS_DOUBLE, _AS_INT = 4, 6
_DELTA = 1


class Number(msgspec.Struct, frozen=True):
    """The value of one metric, summed over its points."""

    name: str
    value: float
    is_sum: bool
    """True: the value is the increment since the previous push. False: it is a gauge."""


class MalformedError(Exception):
    """The bytes are not MetricsData, or have too many fields."""


class _Budget:
    def __init__(self, fields: int) -> None:
        self.fields = self.left = fields


def numbers(data: bytes, fields_max: int = FIELDS_MAX) -> list[Number]:
    """Return the numbers in a push. Skip names that no metric can have, and values that are not finite. Raises
    MalformedError."""
    budget = _Budget(min(fields_max, FIELDS_MAX))
    found: list[Number] = []
    try:
        for _, metrics in _messages(memoryview(data), (_RESOURCE_METRICS,), budget):
            for _, scope in _messages(metrics, (_SCOPE_METRICS,), budget):
                for _, metric in _messages(scope, (_METRICS,), budget):
                    found += _number(metric, budget)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise MalformedError("the metrics are not OpenTelemetry MetricsData") from None
    return found


def _number(metric: memoryview, budget: _Budget) -> list[Number]:
    name, points, kind = "", memoryview(b""), 0
    for field, value in _messages(metric, (_NAME_FIELD, _GAUGE, _SUM), budget):
        if field == _NAME_FIELD:
            name = bytes(value[:256]).decode()
        else:
            points, kind = value, field
    if not kind or _NAME.fullmatch(name) is None:
        return []
    total, temporality, seen = 0.0, _DELTA, False
    for field, part in _fields(points, budget):
        if field == _TEMPORALITY and isinstance(part, int):
            temporality = part
        elif field == _POINTS and isinstance(part, memoryview):
            for inner, number in _fields(part, budget):
                if inner in (_AS_DOUBLE, _AS_INT) and isinstance(number, memoryview):
                    total += struct.unpack("<d" if inner == _AS_DOUBLE else "<q", number)[0]
                    seen = True
    if not seen or not isfinite(total):
        return []
    return [Number(name, total, kind == _SUM and temporality == _DELTA and total >= 0)]


def _messages(data: memoryview, wanted: tuple[int, ...], budget: _Budget) -> Iterator[tuple[int, memoryview]]:
    for field, value in _fields(data, budget):
        if field in wanted and isinstance(value, memoryview):
            yield field, value


def _fields(data: memoryview, budget: _Budget) -> Iterator[tuple[int, memoryview | int]]:
    """Yield number and value of each field. Raises IndexError if the bytes end within a field."""
    at = 0
    while at < len(data):
        budget.left -= 1
        if budget.left < 0:
            raise MalformedError(f"more than {budget.fields} fields")
        tag, at = _varint(data, at)
        kind = tag & 7
        if not tag >> 3:
            raise MalformedError("a field with the number 0")
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise MalformedError(f"wire type {kind}")
        if size > len(data) - at:
            raise IndexError
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedError("a number of more than ten bytes")
