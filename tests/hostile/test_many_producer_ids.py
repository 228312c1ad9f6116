"""A client uses a new producer id for each batch: the broker's state stays limited, and other clients continue."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families as families

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.conftest import StartBroker
from tests.topic_ids.kit import create, idempotent, produce
from tests.wire.client import WireClient

OF_A_PARTITION, OF_THE_BROKER, IN_ANY_CASE = 200, 500, 100
STRANGERS = 400
PARTITIONS = 4


def figures(port: int) -> tuple[float, float]:
    """Return how many producer ids the broker remembers, and how many it has forgotten early."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        found = {sample.name: sample.value for family in families(answer.read().decode()) for sample in family.samples}
    return found["kafka_server_replicamanager_produceridcount"], found["pybroker_producer_ids_dropped_total"]


def producer_id(client: WireClient) -> int:
    answer = client.call(m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    assert answer.error_code == ErrorCode.NONE
    return int(answer.producer_id)


def test_producer_ids_are_bounded_and_honest_producers_go_on(start_broker: StartBroker) -> None:
    port = free_port()
    broker = start_broker(
        {
            "metrics.listener": f"127.0.0.1:{port}",
            "producer.ids.per.partition.max": str(OF_A_PARTITION),
            "producer.ids.max": str(OF_THE_BROKER),
        }
    )
    with WireClient(broker.port) as stranger, WireClient(broker.port) as client:
        create(client, "flooded", PARTITIONS)
        honest, sequence = producer_id(client), 0
        before = figures(port)[0]
        for number in range(STRANGERS * PARTITIONS):
            batch = idempotent(producer_id(stranger), 0, b"x")
            row = produce(stranger, "flooded", batch, 9, partition=number // STRANGERS)
            assert row.error_code == ErrorCode.NONE
            if number % 50 == 0:
                batch = idempotent(honest, sequence, b"honest")
                first = produce(client, "flooded", batch, 9)
                again = produce(client, "flooded", batch, 9)
                assert (first.error_code, again.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
                assert again.base_offset == first.base_offset, "still known, so what it sends again is not stored twice"
                sequence += 1
            if number % 200 == 199:
                assert figures(port)[0] - before <= OF_THE_BROKER + IN_ANY_CASE * PARTITIONS
        known, dropped = figures(port)
        assert known - before <= OF_THE_BROKER + IN_ANY_CASE * PARTITIONS
        assert dropped >= STRANGERS * PARTITIONS - known
        described = client.call(
            m.DescribeProducersRequest(
                topics=[m.DescribeProducersRequest_TopicRequest(name="flooded", partition_indexes=[0])]
            ),
            0,
        )
        producers = described.topics[0].partitions[0].active_producers
        assert len(producers) <= OF_A_PARTITION
        assert honest in {one.producer_id for one in producers}
