"""Serialization of plain values between brokers: changes of the cluster, events, and their replies."""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec

from pybroker.broker.cluster import events, quorum_events
from pybroker.broker.cluster.events import Event
from pybroker.errors import KafkaError
from pybroker.native import Uuid

_VALUE, _ERROR, _LIST = 0, 1, 2
"""Kinds of the parts of a reply."""


class UnreadableError(ValueError):
    """The bytes cannot be decoded: they are damaged or from another version of pybroker."""


def pack(value: object) -> bytes:
    """Serialize a struct, or a value made of structs and plain types."""
    return msgspec.msgpack.encode(value, enc_hook=_plain)


def unpack(kind: Any, data: bytes) -> Any:
    """Return the value of that kind. Raises UnreadableError."""
    try:
        return msgspec.msgpack.decode(data, type=kind, dec_hook=_special)
    except (msgspec.MsgspecError, ValueError) as problem:
        raise UnreadableError(f"{kind}: {problem}") from None


def pack_event(event: Event[Any]) -> bytes:
    """Serialize an event, preceded by its class name."""
    return msgspec.msgpack.encode((type(event).__name__, msgspec.Raw(pack(event))))


def unpack_event(data: bytes) -> Event[Any]:
    """Return the event. Raises UnreadableError."""
    name, body = unpack(tuple[str, msgspec.Raw], data)
    kind = _EVENTS.get(name)
    if kind is None:
        raise UnreadableError(f"unknown event {name!r}")
    event: Event[Any] = unpack(kind, body)
    return event


def pack_reply(reply: object) -> bytes:
    """Serialize the reply to an event. A KafkaError may take the place of the whole reply or, in a list, of an item."""
    return msgspec.msgpack.encode(_parts(reply))


def unpack_reply(event: type[Event[Any]], data: bytes) -> Any:
    """Return the reply to an event of that kind. Raises UnreadableError."""
    return _read(reply_kind(event), data)


def reply_kind(event: type[Event[Any]]) -> Any:
    """Return the reply type of an event."""
    for base in event.__dict__["__orig_bases__"]:
        if typing.get_origin(base) is Event:
            return typing.get_args(base)[0]
    raise AssertionError(event)


def _parts(reply: object) -> tuple[Any, ...]:
    if isinstance(reply, KafkaError):
        return _ERROR, reply.code, reply.message
    if isinstance(reply, list):
        return _LIST, [_parts(result) for result in reply]
    return _VALUE, msgspec.Raw(pack(reply))


def _read(kind: Any, data: bytes) -> Any:
    what, *rest = unpack(tuple[msgspec.Raw, ...], data)
    match unpack(int, what), rest:
        case 1, [code, message]:
            return KafkaError(unpack(int, code), unpack(str | None, message))
        case 2, [items]:
            (inner,) = typing.get_args(kind)
            return [_read(inner, item) for item in unpack(list[msgspec.Raw], items)]
        case 0, [value]:
            return unpack(_without_error(kind), value)
    raise UnreadableError(f"not a reply: {data[:40]!r}")


def _without_error(kind: Any) -> Any:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        left = tuple(member for member in typing.get_args(kind) if member is not KafkaError)
        return typing.Union[left]  # noqa: UP007  (of a tuple)
    return kind


def _plain(value: object) -> object:
    if isinstance(value, Uuid):
        return value.bytes
    raise NotImplementedError(f"{type(value).__name__} cannot be sent")


def _special(kind: type, value: Any) -> object:
    if kind is Uuid:
        return Uuid.from_bytes(value)
    raise NotImplementedError(f"{kind.__name__} cannot be received")


_MODULES = {events.__name__, quorum_events.__name__}
_EVENTS = {kind.__name__: kind for kind in Event.__subclasses__() if kind.__module__ in _MODULES}
"""The events that any broker may submit. The controller's internal events are excluded."""
