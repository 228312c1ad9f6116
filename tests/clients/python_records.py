"""Shared by kafka-python and aiokafka: records with bytes, errors with Kafka's names."""

from __future__ import annotations

from typing import Any

from tests.clients.api import Received

# The libraries' own names for a few codes.
_KAFKA_NAMES = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}


def raw(text: str | None) -> bytes | None:
    """Return text as a key or a value."""
    return None if text is None else text.encode()


def received(record: Any) -> Received:
    """Convert a record of the library to the form that the tests compare."""
    headers = tuple((name, value.decode()) for name, value in record.headers)
    return Received(record.partition, record.offset, _text(record.key), _text(record.value), headers)


def name_of(kind: type[Exception]) -> str:
    """Return Kafka's name of the code that the broker answered; for errors of the client, the name of their class."""
    name = str(getattr(kind, "message", "") or kind.__name__)
    return _KAFKA_NAMES.get(name, name)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
