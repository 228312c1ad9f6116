"""Serializers and deserializers: objects of these classes, or any function of one value."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]


class Serializer(ABC):
    """Turns values into bytes. May also be a ClusterResourceListener (KIP-78)."""

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:  # noqa: B027 - optional to override
        """Called once when the client is created; the cluster id is not known yet."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """Return the bytes of a value; None is a tombstone (or no key)."""

    def close(self) -> None:  # noqa: B027 - optional to override
        """Called when the client is closed."""


class Deserializer(ABC):
    """Turns bytes into values. May also be a ClusterResourceListener (KIP-78)."""

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:  # noqa: B027 - optional to override
        """Called once when the client is created."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Return the value of some bytes."""

    def close(self) -> None:  # noqa: B027 - optional to override
        """Called when the client is closed."""


class StringSerializer(Serializer):
    """Encodes text as UTF-8."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()


class StringDeserializer(Deserializer):
    """Decodes UTF-8 text."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else data.decode()


class JsonSerializer(Serializer):
    """Encodes any value that `json` can, as UTF-8 without spaces."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class JsonDeserializer(Deserializer):
    """Decodes with `json.loads`."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else json.loads(data)


Serialize = Callable[[str, Headers, Any], bytes | None]
Deserialize = Callable[[str, bytes | None, Headers], Any]


def configured(config: Mapping[str, Any], plugins: Iterable[Any], key: Any, value: Any) -> list[Any]:
    """Call `configure` of a client's plug-ins, and of `key` and `value` if they are serializers or deserializers.
    Return all objects that the client must close.
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
    """Return bytes as they are, and text as UTF-8. Raises TypeError if the value has another type, which needs a
    serializer.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"expected bytes or text, got {type(value).__name__}; set key.serializer or value.serializer")


def serialize_with(plugin: Any) -> Serialize | None:
    """Return a serializer's function; None if values are bytes and need no conversion."""
    if plugin is None:
        return None
    if isinstance(plugin, Serializer):
        return plugin.serialize
    return lambda _topic, _headers, value: plain_bytes(plugin(value))


def deserialize_with(plugin: Any) -> Deserialize | None:
    """Return a deserializer's function as the native decoder calls it; None if values stay bytes."""
    if plugin is None:
        return None
    if isinstance(plugin, Deserializer):
        return lambda topic, data, headers: plugin.deserialize(topic, headers, data)
    return lambda _topic, data, _headers: None if data is None else plugin(data)
