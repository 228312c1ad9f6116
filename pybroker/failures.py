"""The response that says "this whole request failed with code X" for any message, so that no request stays
unanswered.

Kafka's responses put errors at the top, or in each item of an array that mirrors the request's. The classes
of
`protocol.messages` tell which; nothing here knows a single API.
"""

from __future__ import annotations

import functools
import types
import typing
from typing import Any

import msgspec

from pybroker.protocol import messages


class _Array(typing.NamedTuple):
    name: str
    item: type[msgspec.Struct]


class _Shape(typing.NamedTuple):
    scalars: frozenset[str]
    arrays: tuple[_Array, ...]


def failure_response(request: object, code: int, message: str | None) -> object:
    """Builds the response that belongs to `request` with `code` in every error slot.

    Raises LookupError for a message without a response class; the caller then closes the connection.
    """
    name = type(request).__name__
    response_class = getattr(messages, name.removesuffix("Request") + "Response", None)
    if not name.endswith("Request") or response_class is None:
        raise LookupError(f"{name} has no response class")
    return _mirror(request, response_class, code, message)


@functools.cache
def _shape(struct: type[msgspec.Struct]) -> _Shape:
    hints = typing.get_type_hints(struct)
    scalars: set[str] = set()
    arrays: list[_Array] = []
    for field in struct.__struct_fields__:
        item = _array_item(hints[field])
        if item is None:
            scalars.add(field)
        else:
            arrays.append(_Array(field, item))
    return _Shape(frozenset(scalars), tuple(arrays))


def _array_item(hint: Any) -> type[msgspec.Struct] | None:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for option in typing.get_args(hint):
            found = _array_item(option)
            if found is not None:
                return found
        return None
    if typing.get_origin(hint) is list:
        (item,) = typing.get_args(hint)
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            return item
    return None


def _mirror(source: object, target: type[msgspec.Struct], code: int, message: str | None) -> msgspec.Struct:
    result = target()
    shape = _shape(target)
    given = _shape(type(source)) if isinstance(source, msgspec.Struct) else _Shape(frozenset(), ())
    for field in shape.scalars:
        if field == "error_code":
            setattr(result, field, code)
        elif field == "error_message":
            setattr(result, field, message)
        elif field in given.scalars:
            setattr(result, field, getattr(source, field))
    for array in shape.arrays:
        if not _holds_errors(array.item):
            continue
        origin = next((a for a in given.arrays if a.name == array.name), None)
        if origin is None and len(given.arrays) == 1:
            origin = given.arrays[0]
        if origin is not None:
            items = getattr(source, origin.name) or []
            setattr(result, array.name, [_mirror(item, array.item, code, message) for item in items])
    return result


@functools.cache
def _holds_errors(struct: type[msgspec.Struct]) -> bool:
    shape = _shape(struct)
    return "error_code" in shape.scalars or any(_holds_errors(array.item) for array in shape.arrays)
