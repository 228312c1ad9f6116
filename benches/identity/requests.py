"""The requests of the cases, and a timed exchange of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from benches.compare.case import Figures
from benches.compare.peers import cpu_seconds
from pybroker.native import Uuid, build_batch, encode_request
from pybroker.protocol import messages
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

BY_NAME, BY_ID = 12, 13
"""Last versions of Fetch and Produce with topic names (12), and first with topic ids (13)."""


def name_of(number: int, prefix: str = "orders") -> str:
    """Return a topic name of 30 characters."""
    return f"{prefix}-{number:0{29 - len(prefix)}}"


def fetch_all(topics: Sequence[tuple[str, Uuid]]) -> messages.FetchRequest:
    """Return a Fetch of partition 0 of every topic, without waiting and without a fetch session."""
    return messages.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=[
            messages.FetchRequest_FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[messages.FetchRequest_FetchPartition(partition=0, partition_max_bytes=1 << 20)],
            )
            for name, topic_id in topics
        ],
    )


def produce_each(topics: Sequence[tuple[str, Uuid]]) -> messages.ProduceRequest:
    """Return a Produce of one 100-byte record to partition 0 of every topic, acks=1."""
    data = [messages.ProduceRequest_PartitionProduceData(index=0, records=_batch())]
    return messages.ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            messages.ProduceRequest_TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
            for name, topic_id in topics
        ],
    )


def metadata_of(topics: Sequence[tuple[str, Uuid]], *, by_id: bool) -> messages.MetadataRequest:
    """Return a Metadata request for known topics."""
    asked = messages.MetadataRequest_MetadataRequestTopic
    return messages.MetadataRequest(
        topics=[asked(name=None, topic_id=topic_id) if by_id else asked(name=name) for name, topic_id in topics],
        allow_auto_topic_creation=False,
    )


def produce_all(name: str, topic_id: Uuid, partitions: int) -> messages.ProduceRequest:
    """Return a Produce of one 100-byte record to each partition, acks=all."""
    records = _batch()
    return messages.ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            messages.ProduceRequest_TopicProduceData(
                name=name,
                topic_id=topic_id,
                partition_data=[
                    messages.ProduceRequest_PartitionProduceData(index=partition, records=records)
                    for partition in range(partitions)
                ],
            )
        ],
    )


def _batch() -> bytes:
    return build_batch([(None, b"v" * 100)], int(time.time() * 1000))


def create(client: WireClient, names: Sequence[str], partitions: int) -> list[tuple[str, Uuid]]:
    """Create topics and return their names and ids. Raises RuntimeError if one is refused."""
    made: list[tuple[str, Uuid]] = []
    for start in range(0, len(names), 1000):
        answer = client.call(
            messages.CreateTopicsRequest(
                timeout_ms=120_000,
                topics=[
                    messages.CreateTopicsRequest_CreatableTopic(
                        name=name, num_partitions=partitions, replication_factor=1
                    )
                    for name in names[start : start + 1000]
                ],
            ),
            7,
        )
        for topic in answer.topics:
            if topic.error_code:
                raise RuntimeError(f"{topic.name}: error {topic.error_code}: {topic.error_message}")
            made.append((topic.name, topic.topic_id))
    return made


def exchange(broker: BrokerProcess, client: WireClient, request: Any, version: int, rounds: int) -> Figures:
    """Send one request repeatedly; return bytes in both directions, the median time, and the broker's CPU per
    request."""
    size = len(encode_request(request, version, 1, client.client_id))
    times = []
    frame = b""
    used = cpu_seconds(broker.pid)
    for _ in range(rounds):
        begun = time.perf_counter()
        client.send(request, version, answered=False)
        frame = client.receive_frame()
        times.append(time.perf_counter() - begun)
    used = cpu_seconds(broker.pid) - used
    return {
        "request_bytes": size,
        "response_bytes": len(frame),
        "p50_ms": median(times) * 1e3,
        "broker_cpu_us": used / rounds * 1e6,
    }
