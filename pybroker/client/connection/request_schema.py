"""Facts from the schema about the classes of `pybroker.protocol.messages`."""

from __future__ import annotations

from typing import NamedTuple

from pybroker.native import message_schema


class RequestSchema(NamedTuple):
    """Facts from the schema about a request class."""

    name: str
    key: int
    lowest: int
    highest: int


_schemas: dict[type, RequestSchema] = {}


def request_schema(kind: type) -> RequestSchema:
    """Return the facts about a request class of `pybroker.protocol.messages`. Raises TypeError if it is not a request
    class.
    """
    schema = _schemas.get(kind)
    if schema is None:
        found = message_schema(kind.__name__)
        if found is None or found.kind != "request" or found.api_key is None:
            raise TypeError(f"{kind.__name__} is not a request")
        name = kind.__name__.removesuffix("Request")
        schema = RequestSchema(name, found.api_key, found.min_version, found.max_version)
        _schemas[kind] = schema
    return schema
