"""Messages of confluent-kafka that have been delivered: its types allow that an offset or a value is missing."""

from __future__ import annotations

from confluent_kafka import Message


def offset_and_value(message: Message) -> tuple[int, bytes]:
    """Where a message is, and what is in it."""
    offset, value = message.offset(), message.value()
    assert offset is not None
    assert isinstance(value, bytes)
    return offset, value
