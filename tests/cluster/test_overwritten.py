"""Concurrent writers: settings through two brokers at once, and direct writes to ZooKeeper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.protocol import messages as m
from tests.support.cluster import BrokerCluster, ClusterBroker, until
from tests.support.cluster_state import state_of
from tests.support.zookeeper import zookeeper_client
from tests.wire.client import WireClient

TOPIC, APPEND, SET = 2, 2, 0
THROTTLED = "follower.replication.throttled.replicas"
EACH = 15


def alter(broker: ClusterBroker, name: str, operation: int, setting: str, value: str) -> int:
    """Change one setting of a topic; return the error code."""
    change = m.IncrementalAlterConfigsRequest_AlterableConfig(
        name=setting, config_operation=operation, value=value
    )
    resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=TOPIC, resource_name=name, configs=[change]
    )
    with WireClient(broker.port) as client:
        (answer,) = client.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    code: int = answer.error_code
    return code


def setting_of(broker: ClusterBroker, name: str, setting: str) -> str | None:
    """Return the setting that a broker shows."""
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=TOPIC, resource_name=name, configuration_keys=[setting]
    )
    with WireClient(broker.port) as client:
        (answer,) = client.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    value: str | None = answer.configs[0].value
    return value


def made(cluster: BrokerCluster, name: str) -> None:
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 3)])
    for broker in cluster.brokers.values():
        until(lambda broker=broker: name in listed(broker))


def listed(broker: ClusterBroker) -> set[str]:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        return set(admin.list_topics())


@pytest.mark.checklist("R26")
def test_what_is_appended_through_two_brokers_at_once_all_holds(cluster: BrokerCluster) -> None:
    made(cluster, "appended")

    def append(broker_id: int) -> list[int]:
        items = [f"0:{broker_id * 100 + number}" for number in range(EACH)]
        return [alter(cluster.brokers[broker_id], "appended", APPEND, THROTTLED, item) for item in items]

    with ThreadPoolExecutor(3) as threads:
        codes = [code for one in threads.map(append, cluster.brokers) for code in one]
    assert codes == [0] * (3 * EACH)
    wanted = {f"0:{broker_id * 100 + number}" for broker_id in cluster.brokers for number in range(EACH)}
    for broker in cluster.brokers.values():
        until(lambda broker=broker: set((setting_of(broker, "appended", THROTTLED) or "").split(",")) == wanted)


@pytest.mark.only_on_zookeeper("ZooKeeper's own: a znode is written past the controller")
def test_somebody_writes_past_the_controller(cluster: BrokerCluster) -> None:
    """The controller no longer knows the state of the store. A controller that has read the store again decides; no
    broker stops."""
    made(cluster, "overwritten")
    broker = cluster.brokers[1]
    assert alter(broker, "overwritten", SET, "retention.ms", "1000") == 0
    with zookeeper_client(cluster.zookeeper.address) as zookeeper:
        path = "/config/topics/overwritten"
        data, _ = zookeeper.get(path)
        zookeeper.set(path, data.replace(b"1000", b"2000"))
    assert alter(broker, "overwritten", SET, "segment.bytes", "1048576") == 0
    with state_of(cluster) as state:
        until(lambda: state.controller() is not None)
    for one in cluster.brokers.values():
        assert one.running
        until(lambda one=one: setting_of(one, "overwritten", "segment.bytes") == "1048576")
        assert setting_of(one, "overwritten", "retention.ms") == "2000", "what is stored is what is in force"

    def said() -> list[str]:
        lines = [line for one in cluster.brokers.values() for line in one.log_tail(10_000).splitlines()]
        return [line for line in lines if " ERROR " in line and "/config/topics/overwritten" in line]

    until(said)
    assert len(said()) == 1, said()
