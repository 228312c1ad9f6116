"""Records of `__transaction_state`, in Kafka's formats (TransactionLogKey, TransactionLogValue).

Keys have version 0. This module reads values of versions 0 and 1, and writes version 1, which is flexible. Besides
Kafka's tags, each topic has a pybroker tag with its topic id, which Kafka skips (`native/protocol/schema/stored`).
Values that Kafka wrote have no such tag. For these, the topic is the incarnation that had the name at the time of the
write.
"""

from __future__ import annotations

from pybroker.broker.coordinators.transaction.transaction import (
    ENDING,
    NO_EPOCH,
    VERSION_1,
    VERSION_2,
    CoordinatedTransaction,
    TransactionPartition,
    TransactionState,
)
from pybroker.native import CodecError, Uuid, decode_data
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import decode_versioned, encode_versioned, split_version

KEY_VERSION = 0
VALUE_VERSION = 1


def encode_key(transactional_id: str) -> bytes:
    """Encode a TransactionLogKey."""
    return encode_versioned(m.StoredTransactionKey(transactional_id), KEY_VERSION)


def decode_key(data: bytes) -> str | None:
    """Return the transactional id; None for an unknown key type. Raise CodecError."""
    version, content = split_version(data)
    if version != KEY_VERSION:
        return None
    transactional_id: str = decode_data("StoredTransactionKey", KEY_VERSION, content).transactional_id
    return transactional_id


def encode_value(value: CoordinatedTransaction) -> bytes:
    """Encode a TransactionLogValue, version 1."""
    topics: dict[tuple[str, Uuid], list[int]] = {}
    for part in sorted(value.partitions):
        topics.setdefault((part.topic, part.topic_id), []).append(part.partition)
    return encode_versioned(
        m.StoredTransaction(
            producer_id=value.producer_id,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            producer_epoch=value.producer_epoch,
            transaction_timeout_ms=value.timeout_ms,
            transaction_status=int(value.state),
            # As in Kafka: null in states without an open transaction.
            transaction_partitions=None
            if value.state is TransactionState.EMPTY
            else [
                m.StoredTransaction_PartitionsSchema(topic=name, partition_ids=partitions, topic_id=topic_id)
                for (name, topic_id), partitions in topics.items()
            ],
            transaction_last_update_timestamp_ms=value.update_ms,
            transaction_start_timestamp_ms=value.start_ms,
            # As in Kafka: 0 for version 1, whose clients do not send a version.
            client_transaction_version=value.version if value.version >= VERSION_2 else 0,
        ),
        VALUE_VERSION,
    )


def decode_value(data: bytes) -> CoordinatedTransaction:
    """Decode a TransactionLogValue, versions 0 and 1; missing topic ids are zero. Raise CodecError."""
    stored = decode_versioned("StoredTransaction", data)
    try:
        state = TransactionState(stored.transaction_status)
    except ValueError as problem:
        raise CodecError(f"{stored.transaction_status} is not a state of a stored transaction") from problem
    parts: list[TransactionPartition] = []
    for topic in stored.transaction_partitions or ():
        parts += [TransactionPartition(topic.topic, topic.topic_id, partition) for partition in topic.partition_ids]
    version = max(stored.client_transaction_version, VERSION_1)
    bumped = version >= VERSION_2 and state in (
        *ENDING,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    return CoordinatedTransaction(
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_timeout_ms,
        state,
        frozenset(parts),
        stored.transaction_start_timestamp_ms,
        stored.transaction_last_update_timestamp_ms,
        stored.previous_producer_id,
        stored.next_producer_id,
        stored.producer_epoch - 1 if bumped and stored.producer_epoch > 0 else NO_EPOCH,
        version,
    )
