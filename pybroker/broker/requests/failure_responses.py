"""The response that reports one error for a whole request, for any API, so that every request gets a response.

Kafka's responses have error fields at the top level, or in each item of an array that corresponds to an array of the
request. This module derives the layout from the schemas and has no code for single APIs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from pybroker.native import message_class, message_schema

ERROR_CODES = frozenset({"error_code", "partition_error_code"})
"""Names of error code fields."""

COUNTERPARTS = {"results_by_topic_v3_and_below": "v3_and_below_topics", "results_by_transaction": "transactions"}
"""Response arrays that correspond to a request array with another name. Needed only for requests with several arrays.
"""

NAMES = ("coordinator_keys", "groups", "group_ids", "groups_names", "transactional_ids", "topic_names")
"""Request arrays whose items are only strings."""
NAMED_BY = ("key", "group_id", "transactional_id", "name")
"""Names of the response fields that contain these strings."""

RECORDS = "unaligned_records"
"""The records of FetchSnapshot, which cannot be null."""

INDEX, INDEXES = "partition_index", ("partitions", "partition_indexes")


class _Name(msgspec.Struct, frozen=True):
    """The name of a message class, and whether it is a broker-to-broker message: such a message may have the same name
    as another but a different layout.
    """

    text: str
    between_brokers: bool


class _Array(msgspec.Struct, frozen=True):
    field: str
    item: _Name
    """Class of the array's items."""


class _Shape(msgspec.Struct, frozen=True):
    scalars: frozenset[str]
    arrays: tuple[_Array, ...]


def failure_response(request: object, code: int, message: str | None) -> object:
    """Build the response to `request` with `code` in every error field.

    Raise LookupError if the message has no response class; the caller then closes the connection.
    """
    name = type(request).__name__
    response = name.removesuffix("Request") + "Response"
    between_brokers = message_class(name) is not type(request)
    answered = _Name(response, between_brokers)
    if not name.endswith("Request") or response not in _shapes(answered):
        raise LookupError(f"{name} has no response class")
    return _mirror(request, _Name(name, between_brokers), answered, code, message)


@functools.cache
def _shapes(message: _Name) -> dict[str, _Shape]:
    """Return the shapes of a message's classes by class name; empty for an unknown message."""
    schema = message_schema(message.text, interbroker=message.between_brokers)
    if schema is None:
        return {}
    shapes: dict[str, _Shape] = {}
    for struct in schema.structs:
        fields = struct.fields
        arrays = tuple(
            _Array(field.name, msgspec.structs.replace(message, text=field.type_name.removeprefix("[]")))
            for field in fields
            if field.type_name.startswith(f"[]{message.text}_")
        )
        scalars = (field.name for field in fields if not _is_struct(field.type_name, message))
        shapes[struct.name] = _Shape(frozenset(scalars), arrays)
    return shapes


def _is_struct(type_name: str, message: _Name) -> bool:
    return type_name.removeprefix("[]").startswith(f"{message.text}_")


def _shape(name: _Name) -> _Shape:
    message = msgspec.structs.replace(name, text=name.text.partition("_")[0])
    return _shapes(message).get(name.text) or _Shape(frozenset(), ())


def _mirror(
    source: Any,
    source_class: _Name,
    target_class: _Name,
    code: int,
    message: str | None,
    *,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> object:
    target = message_class(target_class.text, interbroker=target_class.between_brokers)
    assert target is not None, target_class
    # Broker-to-broker response classes have fields without defaults, so fill every field.
    values: dict[str, Any] = dict(more)
    shape, source_shape = _shape(target_class), _shape(source_class)
    for field in shape.scalars:
        if field in ERROR_CODES:
            values[field] = code
        elif field == "error_message":
            values[field] = message
        elif field == RECORDS:
            values[field] = b""
        elif field in source_shape.scalars:
            values[field] = getattr(source, field)
    for array in shape.arrays:
        if not _holds_errors(array.item):
            continue
        wanted = COUNTERPARTS.get(array.field, array.field)
        origin = next((candidate for candidate in source_shape.arrays if candidate.field == wanted), None)
        if origin is None and len(source_shape.arrays) == 1:
            origin = source_shape.arrays[0]
        items = getattr(source, origin.field) if origin is not None else None
        if origin is not None and items:
            values[array.field] = [_mirror(item, origin.item, array.item, code, message) for item in items]
        elif (named := next((name for name in NAMED_BY if name in _shape(array.item).scalars), None)) is not None:
            values[array.field] = [
                _mirror(None, _Name("", array.item.between_brokers), array.item, code, message, more={named: name})
                for name in _listed(source, source_shape, NAMES)
            ]
        elif INDEX in _shape(array.item).scalars:
            values[array.field] = [
                _indexed(index, array.item, code, message) for index in _listed(source, source_shape, INDEXES)
            ]
    return target(**values)


def _listed(source: Any, source_shape: _Shape, fields: tuple[str, ...]) -> list[Any]:
    """Return the strings or indexes that a request lists."""
    return next((getattr(source, field) for field in fields if field in source_shape.scalars), None) or []


def _indexed(index: int, item_class: _Name, code: int, message: str | None) -> object:
    return _mirror(None, _Name("", item_class.between_brokers), item_class, code, message, more={INDEX: index})


@functools.cache
def _holds_errors(name: _Name) -> bool:
    shape = _shape(name)
    return bool(ERROR_CODES & shape.scalars) or any(_holds_errors(array.item) for array in shape.arrays)
