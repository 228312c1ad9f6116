"""Control messages as the classes of the wire, so that the inter-broker codec can carry them."""

from __future__ import annotations

from typing import Any

from pybroker import native

BY_NAME_ONLY = {"StopReplicaTopicState": {"topic_name": "", "last_epoch": -1}}
"""Fields of versions before topic ids, with the values that later versions decode."""


def as_wire(classes: dict[str, Any], kind: str, value: Any) -> Any:
    """Return `value` as the class that the schema calls `kind`; its fields must be exactly those of the schema."""
    if kind.startswith("[]"):
        return [as_wire(classes, kind[2:], each) for each in value]
    if kind not in classes:
        return value
    fields = {field.name: field.type_name for field in classes[kind]}
    assert set(type(value).__struct_fields__) == set(fields), kind
    made = native.message_class(kind, interbroker=True)
    assert made is not None
    values = {name: as_wire(classes, field_kind, getattr(value, name)) for name, field_kind in fields.items()}
    return made(**values | BY_NAME_ONLY.get(kind.rpartition("_")[2], {}))


def there_and_back(message: Any) -> tuple[Any, Any]:
    """Return the sent and the decoded message: they are equal if the codec has every field."""
    name = type(message).__name__
    schema = native.message_schema(name, interbroker=True)
    assert schema is not None
    assert schema.api_key is not None
    sent = as_wire({one.name: one.fields for one in schema.structs}, name, message)
    body = native.encode(sent, schema.max_version)
    request = schema.kind == "request"
    return sent, native.decode(schema.api_key, schema.max_version, body, request, interbroker=True)
