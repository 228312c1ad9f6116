"""Checks whether every partition that has a leader in Metadata accepts a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pybroker.native import Uuid, build_batch
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode, error_name
from tests.wire.client import WireClient

ANSWER_S = 20.0
POLL_S = 0.1

Refusals = dict[str, str]
"""Topic and partition → why the partition accepted no record."""
Value = Callable[[Uuid], str]
"""Returns the value of the next record for a topic."""


class TakenRecord(NamedTuple):
    """An acknowledged record, and when it was sent."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    value: str
    sent_at: float


Taken = Callable[[TakenRecord], None]
"""Called for each acknowledged record."""


def all_take_a_record(
    ports: Mapping[int, int],
    at: int,
    patience_s: float,
    value: Value = lambda _: "a record",
    taken: Taken = lambda *_: None,
) -> Refusals:
    """Send a record to the leader of every partition in the metadata of broker `at`, except those of internal topics;
    repeat that for all of them until every partition accepts it. Return the partitions that still refuse after
    `patience_s`. ports: the ports of the brokers."""
    give_up = time.monotonic() + patience_s
    while True:
        refused: Refusals = {"Metadata": f"broker {at} does not answer"}
        with suppress(OSError):
            refused = _refusing(ports, at, value, taken)
        if not refused or time.monotonic() > give_up:
            return refused
        time.sleep(POLL_S)


def _refusing(ports: Mapping[int, int], at: int, value: Value, taken: Taken) -> Refusals:
    refused: Refusals = {}
    names: dict[Uuid, str] = {}
    led: dict[int, dict[Uuid, list[int]]] = {}
    with WireClient(ports[at], timeout_s=ANSWER_S) as client:
        shown = client.call(m.MetadataRequest(topics=None), 12).topics
    for topic in shown:
        if topic.is_internal:
            continue
        names[topic.topic_id] = topic.name
        for partition in topic.partitions:
            if partition.leader_id in ports:
                led.setdefault(partition.leader_id, {}).setdefault(topic.topic_id, []).append(partition.partition_index)
            else:
                refused[f"{topic.name}-{partition.partition_index}"] = "no leader"
    for leader, topics in led.items():
        values = {topic_id: value(topic_id) for topic_id in topics}
        sent_at = time.monotonic()
        for topic_id, index, code, offset in _produce(ports[leader], topics, values):
            if code:
                refused[f"{names[topic_id]}-{index}"] = f"broker {leader} answers {error_name(code)}"
            else:
                taken(TakenRecord(names[topic_id], topic_id, index, offset, values[topic_id], sent_at))
    return refused


def _produce(
    port: int, topics: Mapping[Uuid, list[int]], values: Mapping[Uuid, str]
) -> list[tuple[Uuid, int, int, int]]:
    now_ms = int(time.time() * 1000)
    data = []
    for topic_id, indexes in topics.items():
        records = build_batch([(b"one of all", values[topic_id].encode())], now_ms)
        rows = [m.ProduceRequest_PartitionProduceData(index=index, records=records) for index in indexes]
        data.append(m.ProduceRequest_TopicProduceData(topic_id=topic_id, partition_data=rows))
    try:
        with WireClient(port, timeout_s=ANSWER_S) as client:
            answer: Any = client.call(m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), 13)
    except OSError:
        lost = int(ErrorCode.NETWORK_EXCEPTION)
        return [(topic_id, index, lost, -1) for topic_id, indexes in topics.items() for index in indexes]
    return [
        (topic.topic_id, partition.index, partition.error_code, partition.base_offset)
        for topic in answer.responses
        for partition in topic.partition_responses
    ]
