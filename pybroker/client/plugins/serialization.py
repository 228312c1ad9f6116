"""From objects to bytes and back. A serializer is an object of these classes, or any function of one value."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]


class Serializer(ABC):
    """Makes bytes. May also be a ClusterResourceListener (KIP-78)."""

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:  # noqa: B027 - most need nothing of the kind
        """Called once, when the client is made: the cluster id is not known yet."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """The bytes of a value; None is a tombstone (or no key)."""

    def close(self) -> None:  # noqa: B027 - most need nothing of the kind
        """The client is closed."""


class Deserializer(ABC):
    """Makes objects. May also be a ClusterResourceListener."""

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:  # noqa: B027 - most need nothing of the kind
        """Called once, when the client is made."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """The object of some bytes."""

    def close(self) -> None:  # noqa: B027 - most need nothing of the kind
        """The client is closed."""


class StringSerializer(Serializer):
    """Text as UTF-8."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()


class StringDeserializer(Deserializer):
    """UTF-8 as text."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else data.decode()


class JsonSerializer(Serializer):
    """Anything that json knows, as UTF-8 without spaces."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class JsonDeserializer(Deserializer):
    """What json.loads makes of the bytes."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else json.loads(data)


Serialize = Callable[[str, Headers, Any], bytes | None]
Deserialize = Callable[[str, bytes | None, Headers], Any]


def configured(config: Mapping[str, Any], plugins: Iterable[Any], key: Any, value: Any) -> list[Any]:
    """Calls `configure` of a client's plug-ins, and of `key` and `value` if these are serializers or deserializers. All
    that must be closed with the client.
    """
    started = list(plugins)
    for plugin in started:
        plugin.configure(config)
    for each, is_key in ((key, True), (value, False)):
        if isinstance(each, Serializer | Deserializer):
            each.configure(config, is_key)
            started.append(each)
    return started


def plain_bytes(value: Any) -> bytes | None:
    """Without a serializer: bytes stay, text becomes UTF-8. Raises TypeError for anything else."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"expected bytes or text, got {type(value).__name__}: set key.serializer or value.serializer")


def serialize_with(plugin: Any) -> Serialize | None:
    """The function of a serializer; None = the bytes themselves."""
    if plugin is None:
        return None
    if isinstance(plugin, Serializer):
        return plugin.serialize
    return lambda _topic, _headers, value: plain_bytes(plugin(value))


def deserialize_with(plugin: Any) -> Deserialize | None:
    """The function of a deserializer, as the native decoder calls it; None = the bytes themselves."""
    if plugin is None:
        return None
    if isinstance(plugin, Deserializer):
        return lambda topic, data, headers: plugin.deserialize(topic, headers, data)
    return lambda _topic, data, _headers: None if data is None else plugin(data)
