"""Messages of confluent-kafka that have been delivered: in its types, an offset or a value may be missing."""

from __future__ import annotations

from confluent_kafka import Message


def offset_and_value(message: Message) -> tuple[int, bytes]:
    """Return offset and value of a message."""
    offset, value = message.offset(), message.value()
    assert offset is not None
    assert isinstance(value, bytes)
    return offset, value
