"""Reactions of a broker to late, incomplete or wrong orders of a controller: its replicas stay in service unless an
order proves that they must be removed."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.cluster import Store
from tests.support.cluster import ClusterBroker, running_cluster, until
from tests.support.cluster_state import ClusterState, state_of
from tests.support.lives_in_cluster import Everywhere
from tests.wire.client import WireClient

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: LeaderAndIsr and StopReplica on the wire")

INCREMENTAL, FULL = 1, 2
DELETED = -2
"""The leader epoch in a StopReplica for a topic that is deleted."""


class OrderedBrokers(Everywhere):
    """Brokers, one of which gets messages from the test that no controller sends."""

    def __init__(self, cluster: Any, state: ClusterState) -> None:
        super().__init__(cluster)
        self.state = state

    def roles(self) -> tuple[int, int]:
        """Return the controller, and the broker that gets the messages."""
        until(lambda: self.state.brokers() == {1, 2, 3} and self.state.controller() is not None)
        controller = self.state.controller()
        assert controller is not None
        return controller, min({1, 2, 3} - {controller})

    def led_by(self, number: int, name: str, partitions: int = 1) -> Uuid:
        """Create a topic with a leader, a replica on every broker, and a record."""
        others = sorted({1, 2, 3} - {number})
        topic_id = self.at(number).create_on(name, *[[number, *others]] * partitions)
        self.written(name, "kept")
        until(lambda: self.isr(name, number) == {1, 2, 3})
        return topic_id

    def tell(self, number: int, order: Any, *, epoch: int = 0, life: int = 0) -> Any:
        """Send a message as the current controller. `epoch` and `life`: how much older the message's controller epoch
        and broker epoch are than the current ones."""
        order.controller_id = self.state.controller()
        order.controller_epoch = self.state.controller_epoch() - epoch
        order.broker_epoch = self.state.life(number) - life
        version = {wire.LeaderAndIsrRequest: 5, wire.StopReplicaRequest: 4}.get(type(order), 7)
        with WireClient(self.cluster.brokers[number].between_port, client_id="broker-9", interbroker=True) as client:
            return client.call(order, version)

    def lives_on(self, number: int, name: str) -> None:
        """Check that the broker still leads the topic, all brokers have it, and no broker has staged data."""
        assert self.at(number).produce(name, "more").error_code == 0
        until(lambda: self.isr(name, number) == {1, 2, 3})
        assert self.at(number).read(name)[0] == "kept"
        for broker in self.cluster.brokers.values():
            assert (broker.data_dir / f"{name}-0" / "partition.metadata").exists()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Iterator[OrderedBrokers]:
    """Three brokers; every test leaves them running."""
    settings = {"auto.leader.rebalance.enable": "false"}
    with (
        running_cluster(tmp_path_factory.mktemp("orders"), settings=settings, store=store) as cluster,
        state_of(cluster) as state,
    ):
        yield OrderedBrokers(cluster, state)


def staged(broker: ClusterBroker) -> list[str]:
    return [path.name for path in (broker.data_dir / "deleting").glob("*")]


def leader_and_isr(kind: int, *topics: Any) -> Any:
    return wire.LeaderAndIsrRequest(type=kind, topic_states=list(topics))


def topic_state(name: str, topic_id: Uuid, leader: int, epoch: int, partitions: int = 1) -> Any:
    states = [
        wire.LeaderAndIsrRequest_LeaderAndIsrPartitionState(
            partition_index=index, leader=leader, leader_epoch=epoch, isr=[1, 2, 3], replicas=[1, 2, 3]
        )
        for index in range(partitions)
    ]
    return wire.LeaderAndIsrRequest_LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id, partition_states=states)


def stop_replica(topic_id: Uuid, epoch: int = DELETED, partitions: int = 1) -> Any:
    states = [
        wire.StopReplicaRequest_StopReplicaPartitionState(
            partition_index=index, leader_epoch=epoch, delete_partition=True
        )
        for index in range(partitions)
    ]
    topic = wire.StopReplicaRequest_StopReplicaTopicState(topic_id=topic_id, partition_states=states)
    return wire.StopReplicaRequest(delete_partitions=True, topic_states=[topic])


def codes(answer: Any) -> Sequence[int]:
    """Return the error code of the response and those of its partitions."""
    errors = [one.error_code for topic in answer.topics for one in topic.partition_errors]
    return [answer.error_code, *errors]


@pytest.mark.checklist("A13", "B2", "B14", "R27")
def test_what_an_earlier_controller_has_said_or_was_said_to_an_earlier_life(brokers: OrderedBrokers) -> None:
    """Late messages of each type, including a FULL one without partitions, are refused as a whole."""
    controller, told = brokers.roles()
    topic_id = brokers.led_by(told, "late")
    before = brokers.state.controller_epoch()
    brokers.cluster.brokers[controller].restart()
    until(lambda: brokers.state.controller_epoch() > before and brokers.state.controller() is not None)
    controller = brokers.state.controller()
    until(lambda: brokers.controller(told) == controller)
    brokers.written("late", "said by the new one")
    orders = (leader_and_isr(FULL), stop_replica(topic_id), wire.UpdateMetadataRequest())
    for order in orders:
        answer = brokers.tell(told, order, epoch=1)
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert brokers.tell(told, order, life=1).error_code == ErrorCode.STALE_BROKER_EPOCH
    brokers.lives_on(told, "late")
    assert staged(brokers.cluster.brokers[told]) == []


@pytest.mark.checklist("B14", "R27")
def test_what_is_said_to_an_earlier_life_before_the_next_one_has_registered(
    brokers: OrderedBrokers, tmp_path: Path
) -> None:
    """A controller that has not noticed the failure yet continues to send messages to the earlier broker epoch."""
    controller, told = brokers.roles()
    topic_id = brokers.led_by(controller, "between")
    life, epoch = brokers.state.life(told), brokers.state.controller_epoch()
    broker = brokers.cluster.brokers[told]
    broker.kill()
    usual, broker.module = broker.module, ("tests.cluster.registers_late", str(tmp_path))
    broker.launch()
    broker.module = usual
    until((tmp_path / "registering").exists)
    order = stop_replica(topic_id)
    order.controller_id, order.controller_epoch, order.broker_epoch = controller, epoch, life
    with WireClient(broker.between_port, client_id="broker-9", interbroker=True) as client:
        client.send(order, 4)
        (tmp_path / "go").touch()
        assert client.receive().error_code == ErrorCode.STALE_BROKER_EPOCH
    broker.await_answers()
    brokers.lives_on(controller, "between")
    assert staged(broker) == []


@pytest.mark.checklist(64, "A11", "A14", "A15", "R30", "X37", "D5")
def test_what_an_order_does_not_name_stays(brokers: OrderedBrokers) -> None:
    """The messages: INCREMENTAL ones, ones without a type and of an unknown type, and a FULL one that contradicts the
    controller's other messages."""
    _, told = brokers.roles()
    brokers.led_by(told, "unnamed")
    for kind in (INCREMENTAL, 0, 7, -1, FULL):
        assert codes(brokers.tell(told, leader_and_isr(kind))) == [0]
        brokers.lives_on(told, "unnamed")
    assert staged(brokers.cluster.brokers[told]) == []


@pytest.mark.checklist(74, 75, 138, 209, 211, "A16", "A17", "R10")
def test_orders_with_another_id_and_with_none(brokers: OrderedBrokers) -> None:
    """An order that does not prove a successor is refused for that partition; the id on the disk stays."""
    _, told = brokers.roles()
    topic_id = brokers.led_by(told, "own")
    epoch = brokers.at(told).epoch("own")
    file = brokers.cluster.brokers[told].data_dir / "own-0" / "partition.metadata"
    written = file.read_bytes()
    for kind in (INCREMENTAL, FULL):
        for other, error in ((Uuid.random(), ErrorCode.INCONSISTENT_TOPIC_ID), (Uuid.ZERO, ErrorCode.UNKNOWN_TOPIC_ID)):
            order = leader_and_isr(kind, topic_state("own", other, told, epoch))
            assert codes(brokers.tell(told, order)) == [0, error]
    assert file.read_bytes() == written
    assert str(topic_id) in written.decode()
    brokers.lives_on(told, "own")
    # If the disk has no id and no records, the order's id counts: it is written before the partition is served.
    lacks = brokers.at(told).create_on("unwritten", [told])
    file = brokers.cluster.brokers[told].data_dir / "unwritten-0" / "partition.metadata"
    brokers.cluster.brokers[told].stop()
    file.unlink()
    brokers.cluster.brokers[told].start()
    until(lambda: brokers.leader("unwritten") == told)
    assert str(lacks) in file.read_text()
    assert brokers.at(told).produce(lacks, "by id").error_code == 0


@pytest.mark.checklist(86, "A18")
def test_an_order_to_delete_comes_after_the_next_incarnation(brokers: OrderedBrokers) -> None:
    """The order deletes by topic id, whatever name the topic had."""
    _, told = brokers.roles()
    old = brokers.led_by(told, "again")
    assert brokers.at(told).delete(old).error_code == 0
    new = brokers.led_by(told, "again")
    for epoch in (DELETED, 0, 1 << 20):
        assert codes(brokers.tell(told, stop_replica(old, epoch))) == [0, 0]
        brokers.lives_on(told, "again")
    assert brokers.at(told).metadata("again").topic_id == new
    assert brokers.at(told).fetch(old).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def by_id(answer: Any) -> list[tuple[Uuid, list[tuple[int, int]]]]:
    """Return the topic ids of a response, with their partitions and error codes."""
    return [
        (topic.topic_id, [(one.partition_index, one.error_code) for one in topic.partition_errors])
        for topic in answer.topics
    ]


@pytest.mark.checklist(51, 52, 74, 75, 76, 77, 85, 86, "X5")
def test_answers_name_each_topic_by_its_id(brokers: OrderedBrokers) -> None:
    """In the response, topic ids group the partitions, in the order of the request; there are no names."""
    _, told = brokers.roles()
    first, second, unknown = brokers.led_by(told, "first", 2), brokers.led_by(told, "second"), Uuid.random()
    states = topic_state("first", first, told, 0, 2), topic_state("second", unknown, told, 0)
    answer = brokers.tell(told, leader_and_isr(INCREMENTAL, *states))
    assert by_id(answer) == [(first, [(0, 0), (1, 0)]), (unknown, [(0, ErrorCode.INCONSISTENT_TOPIC_ID)])]
    order = stop_replica(unknown, partitions=2)
    order.topic_states += stop_replica(Uuid.METADATA).topic_states
    answer = brokers.tell(told, order)
    assert by_id(answer) == [(unknown, [(0, 0), (1, 0)]), (Uuid.METADATA, [(0, 0)])]
    for name, topic_id in (("first", first), ("second", second)):
        brokers.lives_on(told, name)
        assert brokers.at(told).metadata(name).topic_id == topic_id


@pytest.mark.checklist(71, 72, 78, 128, "R10", "X26")
@pytest.mark.parametrize("kind", [INCREMENTAL, FULL], ids=["incremental", "full"])
def test_a_leader_epoch_above_all_local_ones_proves_a_successor(brokers: OrderedBrokers, kind: int) -> None:
    """For every type of message, the old replica is staged and the new one is created, without an error."""
    _, told = brokers.roles()
    name = f"succeeded-{kind}"
    old, new = brokers.led_by(told, name), Uuid.random()
    epoch = brokers.at(told).epoch(name)
    order = leader_and_isr(kind, topic_state(name, new, told, epoch + 1))
    order.topic_states[0].partition_states[0].is_new = True
    assert by_id(brokers.tell(told, order)) == [(new, [(0, 0)])]
    (aside,) = brokers.staged(told, old)
    assert b"kept" in brokers.records_of(told, f"deleting/{aside.name}")
    data_dir = brokers.cluster.brokers[told].data_dir
    assert str(new) in (data_dir / f"{name}-0" / "partition.metadata").read_text()
    assert brokers.records_of(told, f"{name}-0") == b""
    announced = re.escape(f"(id {old}), partitions 0 will be removed from disk after ") + r"(\S+)"
    lines = brokers.cluster.brokers[told].console.read_text().splitlines()
    (due,) = [found[1] for line in lines if " WARN " in line and (found := re.search(announced, line))]
    assert datetime.datetime.fromisoformat(due) > datetime.datetime.now(datetime.UTC)
