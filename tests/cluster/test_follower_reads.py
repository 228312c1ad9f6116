"""Consumers read from a replica in their own rack (KIP-392)."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator

import pytest

from pybroker.client import TopicPartition, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import ClusterBroker, Network, running_network, until
from tests.support.kafka_tools import run_tool
from tests.support.links import CLIENTS
from tests.support.replicas import create, produce_as_leader, same_logs, state
from tests.support.wire import free_port
from tests.topic_ids import kit
from tests.wire.client import WireClient

WAIT_MS = 25_000
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # A follower that is not woken fetches, and learns of committed records, only after this time.
    "replica.fetch.wait.max.ms": str(WAIT_MS),
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[Network]:
    """Broker N is in rack N."""

    def in_a_rack(broker: ClusterBroker) -> None:
        broker.settings["broker.rack"] = f"rack-{broker.broker_id}"
        broker.settings["metrics.listener"] = f"127.0.0.1:{free_port()}"

    with running_network(tmp_path_factory.mktemp("racks"), SETTINGS, in_a_rack, store=store) as network:
        yield network


def fetched(
    broker: ClusterBroker, topic: str, offset: int = 0, *, epoch: int = -1, rack: str = "", version: int = 12
) -> m.FetchResponse_PartitionData:
    """Return the partition's row of the response."""
    with WireClient(broker.port) as client:
        answer = client.call(kit.fetch_request((topic, offset, epoch), rack_id=rack), version)
    row: m.FetchResponse_PartitionData = answer.responses[0].partitions[0]
    return row


def test_the_leader_names_the_replica_in_the_consumers_rack(network: Network) -> None:
    brokers = network.cluster.brokers
    create(network.cluster, "near", [2, 3])
    produce_as_leader(brokers[2], "near", "a")
    same_logs(network.cluster, "near")
    # The replica is in sync when the leader has the controller's decision.
    until(lambda: fetched(brokers[2], "near", rack="rack-3").preferred_read_replica == 3)
    for rack, named in {"rack-3": 3, "rack-2": -1, "rack-1": -1, "elsewhere": -1, "": -1}.items():
        row = fetched(brokers[2], "near", rack=rack)
        assert (row.error_code, row.preferred_read_replica) == (0, named)
        assert bool(row.records) == (named == -1)
    # No replica in that rack has that many records: the leader responds as to any client.
    row = fetched(brokers[2], "near", 99, rack="rack-3")
    assert (row.error_code, row.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_follower_serves_consumers_what_it_knows_to_be_committed(network: Network) -> None:
    follower = network.cluster.brokers[3]
    create(network.cluster, "served", [2, 3])
    produce_as_leader(network.cluster.brokers[2], "served", "a")
    same_logs(network.cluster, "served")
    until(lambda: fetched(follower, "served").records)
    assert fetched(follower, "served").high_watermark == 1
    epoch = state(network.cluster, "served").epoch
    assert fetched(follower, "served", epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetched(follower, "served", epoch=epoch).error_code == ErrorCode.NONE
    assert fetched(follower, "served", 2, epoch=epoch).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    # These cover old versions without the field, and brokers without a replica.
    assert fetched(follower, "served", version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(network.cluster.brokers[1], "served").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_our_consumer_goes_on_near_it_while_the_leader_is_not_reached(network: Network) -> None:
    """The consumer gets new records when they are committed, without waiting for the follower's next fetch."""
    cluster = network.cluster
    create(cluster, "followed", [2, 3])
    found: list[str] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "earliest", "client.rack": "rack-3"}
    with blocking.Consumer({**settings, "request.timeout.ms": 10_000}) as consumer:
        consumer.assign([TopicPartition("followed", 0)])

        def read(count: int) -> None:
            def enough() -> bool:
                found.extend(record.value.decode() for record in consumer.poll(1.0))
                return len(found) >= count

            until(enough)

        produce_as_leader(cluster.brokers[2], "followed", "0")
        read(1)
        network.links.cut_off(2, CLIENTS)
        try:
            before = time.monotonic()
            for number in range(1, 6):
                produce_as_leader(cluster.brokers[2], "followed", str(number))
                read(number + 1)
            assert time.monotonic() - before < 3 * WAIT_MS / 1000, "each of five would have waited"
        finally:
            network.links.heal()
        # Remove the nearby replica: the leader serves the client again.
        cluster.brokers[3].kill()
        produce_as_leader(cluster.brokers[2], "followed", "6")
        read(7)
    cluster.brokers[3].start()
    assert found == [str(number) for number in range(7)]


def fetched_bytes(broker: ClusterBroker) -> float:
    """Return the number of bytes that the broker has sent to consumers and followers."""
    with urllib.request.urlopen(f"http://{broker.settings['metrics.listener']}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.search(r"^pybroker_fetched_bytes_total(?:{[^}]*})? (\S+)", text, re.M)
    assert found is not None
    return float(found[1])


def test_the_java_consumer_reads_near_it(network: Network) -> None:
    cluster = network.cluster
    create(cluster, "java", [2, 3])
    produce_as_leader(cluster.brokers[2], "java", "one", "two")
    same_logs(cluster, "java")
    before = fetched_bytes(cluster.brokers[3])
    arguments = ["--bootstrap-server", cluster.brokers[3].bootstrap, "--topic", "java", "--from-beginning"]
    arguments += ["--max-messages", "2", "--timeout-ms", "60000", "--command-property", "client.rack=rack-3"]
    assert run_tool("kafka-console-consumer", arguments).split() == ["one", "two"]
    assert fetched_bytes(cluster.brokers[3]) > before
