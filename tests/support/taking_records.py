"""Whether every partition that has a leader takes a record: what Metadata says is held against what leaders do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pybroker.native import Uuid, build_batch
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode, error_name
from tests.wire.client import WireClient

ANSWER_S = 20.0
POLL_S = 0.1

Refusals = dict[str, str]
"""Why a partition took no record, by topic and partition."""


def refusing(ports: Mapping[int, int], at: int) -> Refusals:
    """Send one record to the leader of every partition that broker `at` shows, except those of internal topics. Give
    the partitions that refused it. `ports`: of the brokers."""
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
        for topic_id, index, code in _produce(ports[leader], topics):
            if code:
                refused[f"{names[topic_id]}-{index}"] = f"broker {leader} answers {error_name(code)}"
    return refused


def all_take_a_record(ports: Mapping[int, int], at: int, patience_s: float) -> Refusals:
    """Try again until no partition refuses a record; give those that still do when the time is over."""
    give_up = time.monotonic() + patience_s
    while True:
        refused: Refusals = {"Metadata": f"broker {at} does not answer"}
        with suppress(OSError):
            refused = refusing(ports, at)
        if not refused or time.monotonic() > give_up:
            return refused
        time.sleep(POLL_S)


def _produce(port: int, topics: Mapping[Uuid, list[int]]) -> list[tuple[Uuid, int, int]]:
    records = build_batch([(b"takes", b"a record")], int(time.time() * 1000))
    data = [
        m.ProduceRequest_TopicProduceData(
            topic_id=topic_id,
            partition_data=[m.ProduceRequest_PartitionProduceData(index=index, records=records) for index in indexes],
        )
        for topic_id, indexes in topics.items()
    ]
    try:
        with WireClient(port, timeout_s=ANSWER_S) as client:
            answer: Any = client.call(m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), 13)
    except OSError:
        lost = int(ErrorCode.NETWORK_EXCEPTION)
        return [(topic_id, index, lost) for topic_id, indexes in topics.items() for index in indexes]
    return [
        (topic.topic_id, partition.index, partition.error_code)
        for topic in answer.responses
        for partition in topic.partition_responses
    ]
