"""Produce requests: chooses their version, builds them, and finds the response row of each batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pybroker.client.producer.accumulator import Batch
from pybroker.protocol import messages as m

_BY_ID = 13
"""First version that names topics by id (KIP-516)."""


_TRANSACTIONS_1 = 11
"""Last version with which the producer must first add partitions to its transaction by AddPartitionsToTxn (KIP-890)."""


def version_for(batches: Sequence[Batch], highest: int, *, transactions_1: bool = False) -> int:
    """Return the version for a broker that supports `highest`. If a topic id is missing, the version must use names.
    transactions_1: whether the producer uses version 1 of transactions.
    """
    if transactions_1:
        return min(highest, _TRANSACTIONS_1)
    return highest if all(batch.topic_id for batch in batches) else min(highest, _BY_ID - 1)


def produce_request(
    batches: Sequence[Batch], version: int, *, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> m.ProduceRequest:
    """Return the request. The batches are already encoded."""
    topics: dict[Any, m.ProduceRequest_TopicProduceData] = {}
    for batch in batches:
        key = _topic(batch, version)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = m.ProduceRequest_TopicProduceData(
                name=batch.topic, topic_id=batch.topic_id, partition_data=[]
            )
        topic.partition_data.append(m.ProduceRequest_PartitionProduceData(index=batch.partition, records=batch.wire))
    return m.ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )


def answer_rows(batches: Sequence[Batch], answer: m.ProduceResponse, version: int) -> list[Any]:
    """Return the response row of each batch, in order; None for a batch without a row."""
    rows = {
        (topic.topic_id if version >= _BY_ID else topic.name, row.index): row
        for topic in answer.responses
        for row in topic.partition_responses
    }
    return [rows.get((_topic(batch, version), batch.partition)) for batch in batches]


def _topic(batch: Batch, version: int) -> Any:
    return batch.topic_id if version >= _BY_ID else batch.topic
