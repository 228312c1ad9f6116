"""The response that says "this whole request failed with code X" for any message, so that no request stays unanswered.

Kafka's responses put errors at the top, or in each item of an array that mirrors the request's. The schemas tell which;
nothing here knows a single API.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pybroker.native import message_class, message_schema


class _Array(NamedTuple):
    field: str
    item: str
    """Class name of its items."""


class _Shape(NamedTuple):
    scalars: frozenset[str]
    arrays: tuple[_Array, ...]


def failure_response(request: object, code: int, message: str | None) -> object:
    """Builds the response that belongs to `request` with `code` in every error slot.

    Raises LookupError for a message without a response class; the caller then closes the connection.
    """
    name = type(request).__name__
    response = name.removesuffix("Request") + "Response"
    if not name.endswith("Request") or response not in _shapes(response):
        raise LookupError(f"{name} has no response class")
    return _mirror(request, name, response, code, message)


@functools.cache
def _shapes(message: str) -> dict[str, _Shape]:
    """The shapes of a message's classes by class name; empty for an unknown message."""
    schema = message_schema(message)
    if schema is None:
        return {}
    shapes: dict[str, _Shape] = {}
    for struct in schema.structs:
        fields = struct.fields
        arrays = tuple(
            _Array(field.name, field.type_name.removeprefix("[]"))
            for field in fields
            if field.type_name.startswith(f"[]{message}_")
        )
        structs = {array.field for array in arrays}
        shapes[struct.name] = _Shape(frozenset(field.name for field in fields if field.name not in structs), arrays)
    return shapes


def _shape(name: str) -> _Shape:
    return _shapes(name.partition("_")[0]).get(name) or _Shape(frozenset(), ())


def _mirror(source: Any, source_class: str, target_class: str, code: int, message: str | None) -> object:
    target = message_class(target_class)
    assert target is not None, target_class
    result: Any = target()
    shape, given = _shape(target_class), _shape(source_class)
    for field in shape.scalars:
        if field == "error_code":
            result.error_code = code
        elif field == "error_message":
            result.error_message = message
        elif field in given.scalars:
            setattr(result, field, getattr(source, field))
    for array in shape.arrays:
        if not _holds_errors(array.item):
            continue
        origin = next((one for one in given.arrays if one.field == array.field), None)
        if origin is None and len(given.arrays) == 1:
            origin = given.arrays[0]
        if origin is not None:
            items = getattr(source, origin.field) or []
            mirrored = [_mirror(item, origin.item, array.item, code, message) for item in items]
            setattr(result, array.field, mirrored)
    return result


@functools.cache
def _holds_errors(name: str) -> bool:
    shape = _shape(name)
    return "error_code" in shape.scalars or any(_holds_errors(array.item) for array in shape.arrays)
