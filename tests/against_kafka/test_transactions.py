"""Producers and transactions: KIP-98, KIP-360, KIP-447, KIP-664, KIP-890, KIP-994."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.groups.requests import consumer_beat, consumer_join, fetch, join, sync
from tests.topic_ids.kit import idempotent

NOBODY = 1 << 40
"""A producer id that no broker of this run has allocated."""

Producer = tuple[int, int]
"""Producer id and epoch."""


def batch(producer: Producer, sequence: int, count: int = 1, *, transactional: bool = True) -> bytes:
    """Return a batch of a producer, with its sequence."""
    producer_id, epoch = producer
    return idempotent(producer_id, sequence, *[b"value"] * count, epoch=epoch, transactional=transactional)


def init(name: str | None, producer: Producer = (-1, -1), timeout_ms: int = 60_000) -> m.InitProducerIdRequest:
    return m.InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer[0], producer_epoch=producer[1]
    )


def begun(side: Side, name: str) -> Producer:
    """Initialize a producer of a transactional id."""
    answer = side.ask(init(name), 5)
    return answer.producer_id, answer.producer_epoch


def write(side: Side, name: str | None, topic: str, records: bytes, version: int = 11, *, index: int = 0) -> Any:
    """Produce, and compare the response."""
    data = m.ProduceRequest_PartitionProduceData(index=index, records=records)
    rows = [m.ProduceRequest_TopicProduceData(name=topic, partition_data=[data])]
    request = m.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=rows)
    # The broker determines the append time; the log start is the last one that it has read.
    return side.ask(request, version, but=("log_append_time_ms",))


def add(name: str, producer: Producer, topic: str, *indexes: int) -> m.AddPartitionsToTxnRequest:
    """AddPartitionsToTxn of clients."""
    rows = [m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))]
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=rows,
    )


def end(name: str, producer: Producer, *, commit: bool = True) -> m.EndTxnRequest:
    return m.EndTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )


def offsets(name: str, group: str, producer: Producer, topic: str, **more: Any) -> m.TxnOffsetCommitRequest:
    """TxnOffsetCommit of partitions 0 and 9, of which the second does not exist."""
    rows = [
        m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=3)
                for index in (0, 9)
            ],
        )
    ]
    return m.TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=rows,
        **more,
    )


def shown(side: Side, name: str, topic: str) -> None:
    """Describe the transaction by the requests of administrators."""
    side.ask(m.DescribeTransactionsRequest(transactional_ids=[name]), 0)
    rows = [m.DescribeProducersRequest_TopicRequest(name=topic, partition_indexes=[0])]
    side.ask(m.DescribeProducersRequest(topics=rows), 0, but=("coordinator_epoch",))
    for version, more in (
        (0, {}),
        (0, {"state_filters": ["Ongoing"]}),
        (0, {"state_filters": ["nonsense", "CompleteCommit"]}),
        # Not compared for a producer without a transaction: Kafka returns a start in 1970.
        (1, {"duration_filter": 3_600_000, "state_filters": ["Ongoing"]}),
        (2, {"transactional_id_pattern": f"{name}.*"}),
        (2, {"transactional_id_pattern": "nobody.*"}),
        (2, {"transactional_id_pattern": "("}),
    ):
        answer = side.quietly(m.ListTransactionsRequest(**more), version)
        answer.transaction_states = [one for one in answer.transaction_states if one.transactional_id == name]
        side.note("ListTransactions", answer)


def completed(side: Side, name: str, state: str) -> None:
    """Wait until the end has reached all partitions."""
    side.until(
        lambda: m.DescribeTransactionsRequest(transactional_ids=[name]),
        0,
        lambda answer: answer.transaction_states[0].transaction_state == state,
    )


def version_1(side: Side, name: str) -> None:
    side.topic(name, 3)
    side.ask(m.FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)
    me = begun(side, name)
    shown(side, name, name)
    side.ask(end(name, me), 4)
    side.ask(add(name, me, name, 0, 1), 3)
    side.ask(add(name, me, name, 0, 9), 3)
    side.ask(add(name, me, "no-such-topic", 0), 3)
    side.ask(add(name, (me[0], me[1] + 1), name, 0), 3)
    side.ask(add(name, (NOBODY, 0), name, 0), 3)
    side.ask(add(f"{name}-x", me, name, 0), 3)
    for sequence in (0, 0, 1, 5):
        write(side, name, name, batch(me, sequence))
    write(side, name, name, batch(me, 0), index=2)
    write(side, f"{name}-x", name, batch(me, 2))
    write(side, None, name, batch(me, 2))
    write(side, name, name, batch((me[0], me[1] + 1), 0))
    shown(side, name, name)
    side.ask(end(name, (me[0], me[1] + 1)), 4)
    side.ask(end(name, (NOBODY, 0)), 4)
    side.ask(end(f"{name}-x", me), 4)
    side.ask(end(name, me), 4)
    completed(side, name, "CompleteCommit")
    shown(side, name, name)
    side.ask(end(name, me), 4)
    side.ask(end(name, me, commit=False), 4)
    side.ask(add(name, me, name, 0), 3)
    side.ask(end(name, me, commit=False), 4)
    completed(side, name, "CompleteAbort")
    side.ask(end(name, me, commit=True), 4)
    shown(side, name, name)
    # A later instance of the producer fences the first one.
    second = begun(side, name)
    side.note("raised", second[1] - me[1])
    side.ask(add(name, me, name, 0), 3)
    side.ask(end(name, me), 4)
    write(side, name, name, batch(me, 2))
    side.ask(init(name, me), 5)
    third = side.ask(init(name, second), 5)
    side.note("raised", third.producer_epoch - second[1])
    side.ask(init(name, second), 5)


def version_2(side: Side, name: str) -> None:
    side.topic(name, 2)
    me = begun(side, name)
    side.ask(end(name, me), 5)
    write(side, name, name, batch(me, 0), 12)
    write(side, name, name, batch(me, 1), 12)
    shown(side, name, name)
    ended = side.ask(end(name, me), 5)
    completed(side, name, "CompleteCommit")
    side.note("raised", ended.producer_epoch - me[1])
    side.ask(end(name, me), 5)
    side.ask(end(name, me, commit=False), 5)
    write(side, name, name, batch(me, 2), 12)
    me = ended.producer_id, ended.producer_epoch
    shown(side, name, name)
    write(side, name, name, batch(me, 3), 12)
    write(side, name, name, batch(me, 0), 12)
    write(side, name, name, batch(me, 0), 12, index=1)
    write(side, name, name, batch(me, 0), 12, index=9)
    ended = side.ask(end(name, me, commit=False), 5)
    completed(side, name, "CompleteAbort")
    me = ended.producer_id, ended.producer_epoch
    shown(side, name, name)
    # End a transaction that has not begun.
    side.ask(end(name, me), 5)
    side.ask(end(name, me, commit=False), 5)


def forms(side: Side, name: str) -> None:
    """Requests that are refused for every client."""
    side.ask(init(""), 5)
    for timeout_ms in (0, -1, 1, 900_000, 900_001, 2**31 - 1):
        side.ask(init(f"{name}-{timeout_ms}", timeout_ms=timeout_ms), 5, but=("producer_epoch",))
    side.ask(init(f"{name}-a", (5, -1)), 5)
    side.ask(init(f"{name}-b", (-1, 5)), 5)
    side.ask(init(f"{name}-c", (NOBODY, 3)), 5)
    side.ask(init(None, (NOBODY, 3)), 5)
    side.ask(init(None), 0)
    side.ask(end(name, (1, 1)), 3)
    side.ask(add(name, (1, 1), "t", 0), 0)
    side.ask(m.DescribeTransactionsRequest(transactional_ids=[name, ""]), 0)
    side.ask(m.DescribeTransactionsRequest(transactional_ids=[]), 0)
    rows = [m.DescribeProducersRequest_TopicRequest(name="no-such-topic", partition_indexes=[0])]
    side.ask(m.DescribeProducersRequest(topics=rows), 0)
    side.ask(m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=1, producer_epoch=1, group_id=name), 3)
    side.ask(m.AddOffsetsToTxnRequest(transactional_id="", producer_id=1, producer_epoch=1, group_id=name), 3)
    side.ask(m.FindCoordinatorRequest(key_type=1, coordinator_keys=["", name]), 4)
    side.ask(m.FindCoordinatorRequest(key_type=9, coordinator_keys=[name]), 4)


def sequences(side: Side, name: str) -> None:
    """Sequences of a producer without transactions."""
    side.topic(name, 1)
    first = side.quietly(init(None), 5)
    me = first.producer_id, 0
    for sequence, count in ((0, 1), (0, 1), (1, 3), (1, 3), (2, 1), (9, 1), (4, 1), (0, 1)):
        write(side, None, name, batch(me, sequence, count, transactional=False))
    for sequence in range(5, 12):
        write(side, None, name, batch(me, sequence, transactional=False))
    # The broker knows the last five batches as duplicates, but no earlier ones.
    for sequence in (11, 7, 6, 5, 1):
        write(side, None, name, batch(me, sequence, transactional=False))
    write(side, None, name, batch((me[0], 2), 4, transactional=False))
    write(side, None, name, batch((me[0], 2), 0, transactional=False))
    write(side, None, name, batch(me, 12, transactional=False))
    write(side, None, name, batch((NOBODY, 0), 7, transactional=False))
    # The next epoch here, a new producer id in Kafka: both begin anew, and both answer a repeated request in the same
    # way.
    side.ask(init(None, (me[0], 2)), 5, but=("producer_epoch",))
    rows = [m.DescribeProducersRequest_TopicRequest(name=name, partition_indexes=[0, 9])]
    answer = side.quietly(m.DescribeProducersRequest(topics=rows), 0)
    side.note("DescribeProducers", answer, but=("coordinator_epoch",))


def offsets_of_groups(side: Side, name: str) -> None:
    side.topic(name, 1)
    me = begun(side, name)
    group = f"{name}-group"
    side.ask(offsets(name, group, me, name), 3)
    side.ask(
        m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=me[0], producer_epoch=me[1], group_id=group), 3
    )
    side.ask(offsets(name, group, me, name), 3)
    side.ask(offsets(name, group, (me[0], me[1] + 1), name), 3)
    side.ask(offsets(name, group, me, name, member_id="nobody"), 3)
    side.ask(offsets(name, group, me, name, generation_id_or_member_epoch=4), 3)
    for stable in (True, False):
        request = fetch(group, name, (0,))
        request.require_stable = stable
        side.ask(request, 9)
    side.ask(m.DeleteGroupsRequest(groups_names=[group]), 2)
    side.ask(end(name, me), 4)
    completed(side, name, "CompleteCommit")
    stable = fetch(group, name, (0,))
    stable.require_stable = True
    side.until(lambda: stable, 9, lambda answer: answer.groups[0].topics[0].partitions[0].error_code == 0)
    side.ask(stable, 9)
    # Of members of both protocols.
    classic = f"{name}-classic"
    member = side.know(side.quietly(join(classic, topic=name), 9).member_id, "member")
    side.quietly(join(classic, member, name), 9)
    side.quietly(sync(classic, member, 1, {member: b"a"}), 5)
    for generation, who in ((1, member), (2, member), (1, "nobody"), (-1, "")):
        side.ask(offsets(name, classic, me, name, generation_id_or_member_epoch=generation, member_id=who), 5)
    newer = f"{name}-newer"
    epoch = side.until(
        lambda: consumer_join(newer, "one", name), 1, lambda answer: answer.error_code == 0
    ).member_epoch
    for generation, who in ((epoch, "one"), (epoch + 1, "one"), (epoch - 1, "one"), (epoch, "nobody"), (-1, "")):
        side.ask(offsets(name, newer, me, name, generation_id_or_member_epoch=generation, member_id=who), 5)
    side.quietly(consumer_beat(newer, "one", -1), 1)
    side.ask(offsets(name, newer, me, name), 5)
    side.ask(end(name, me, commit=False), 4)


@pytest.mark.parametrize("story", [version_1, version_2, forms, sequences, offsets_of_groups])
def test_what_kafka_answers(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
