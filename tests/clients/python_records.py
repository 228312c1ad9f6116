"""Shared by kafka-python and aiokafka: records with bytes, errors with Kafka's names."""

from __future__ import annotations

from typing import Any

from tests.clients.api import Received

# Their own names for a few codes.
_KAFKA_NAMES = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}


def raw(text: str | None) -> bytes | None:
    """Text as a key or a value."""
    return None if text is None else text.encode()


def received(record: Any) -> Received:
    """A record of theirs as the tests compare it."""
    headers = tuple((name, value.decode()) for name, value in record.headers)
    return Received(record.partition, record.offset, _text(record.key), _text(record.value), headers)


def name_of(kind: type[Exception]) -> str:
    """Kafka's name of the code that the broker answered; the class's own name for errors of the client."""
    name = str(getattr(kind, "message", "") or kind.__name__)
    return _KAFKA_NAMES.get(name, name)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
