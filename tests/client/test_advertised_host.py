"""A broker advertises a host name that does not resolve: clients report it within seconds, not after their timeouts."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.client import AdminClient, Consumer, NewTopic, Producer, TopicPartition, UnknownHostError
from pybroker.native import NativeError
from pybroker.protocol import messages as m
from pybroker.spark.cluster_requests import SparkCluster
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

HOST = "no-such-host.invalid"
LONG_MS = 600_000
"""Each timeout of the clients: a client that waits for one of them fails the test."""
TEST_S = 120.0


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker({"advertised.listeners": f"PLAINTEXT://{HOST}:9092", "auto.create.topics.enable": "true"})


def settings(broker: BrokerProcess, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.port}",
        "default.api.timeout.ms": LONG_MS,
        "request.timeout.ms": LONG_MS // 2,
        **more,
    }


def is_told(error: UnknownHostError) -> None:
    """Check that the error is one sentence with the name and the remedy."""
    assert f"{HOST}:9092 has a host name that does not resolve" in str(error)
    assert "advertised.listeners" in str(error)
    assert "/etc/hosts" in str(error)


async def read(consumer: Consumer) -> None:
    while True:
        await consumer.poll(1.0)


async def test_producer_consumer_and_admin_say_which_host_does_not_resolve(broker: BrokerProcess) -> None:
    async with asyncio.timeout(TEST_S):
        async with Producer(settings(broker, **{"delivery.timeout.ms": LONG_MS})) as producer:
            with pytest.raises(UnknownHostError) as failed:
                await producer.send("t", b"x")
            is_told(failed.value)
        async with Consumer(settings(broker, **{"auto.offset.reset": "earliest"})) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            with pytest.raises(UnknownHostError) as failed:
                await read(consumer)
            is_told(failed.value)
        async with Consumer(settings(broker, **{"group.id": "g"})) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(UnknownHostError) as failed:
                await read(consumer)
            is_told(failed.value)
        async with AdminClient(settings(broker)) as admin:
            with pytest.raises(UnknownHostError) as failed:
                await admin.create_topics([NewTopic("u")]).all()
            is_told(failed.value)


def test_the_spark_connector_says_so_too(broker: BrokerProcess) -> None:
    """Spark's driver and tasks use the same client."""
    cluster = SparkCluster(settings_of_spark(broker), waits=True)
    assert cluster.id, "bootstrap.servers has an address"
    asked = m.CreateTopicsRequest(timeout_ms=1_000)
    with pytest.raises(NativeError) as failed:
        cluster.send(asked, 19, 2, 7, -1)
    assert f"{HOST}:9092 has a host name that does not resolve" in str(failed.value)
    assert "advertised.listeners" in str(failed.value)


def settings_of_spark(broker: BrokerProcess) -> dict[str, str]:
    return {"bootstrap.servers": f"127.0.0.1:{broker.port}", "delivery.timeout.ms": str(LONG_MS)}
