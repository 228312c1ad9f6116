"""Clients see a partition when its leader accepts records. A stopped broker delays only the partitions that it
leads."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.quorum.scene import Scene, until
from tests.topic_ids.kit import batch
from tests.wire.client import WireClient

SETTINGS = {"broker.session.timeout.ms": "60000", "controller.quorum.fetch.timeout.ms": "20000"}
"""A stopped broker stays registered, and does not become a candidate when it resumes."""
ROUNDS = 15


class Clients:
    """A connection to each broker. The brokers have three roles: controller, slow broker, and third broker."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.at = {broker_id: WireClient(broker.port) for broker_id, broker in scene.brokers.items()}
        self.controller = scene.controller()
        self.slow, self.other = (broker_id for broker_id in scene.brokers if broker_id != self.controller)
        self.running = (self.controller, self.other)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Pause the slow broker with SIGSTOP; resume it at the end."""
        pid = self.scene.brokers[self.slow].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def ask_to_create(self, name: str, leaders: list[int], through: int, timeout_ms: int = 30_000) -> None:
        """Send CreateTopics to a broker; each partition has one replica."""
        assignments = [
            m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=index, broker_ids=[leader])
            for index, leader in enumerate(leaders)
        ]
        topic = m.CreateTopicsRequest_CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[m.CreateTopicsRequest_CreatableTopicConfig("min.insync.replicas", "1")],
        )
        self.at[through].send(m.CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)

    def created(self, through: int) -> int:
        """Return the error code of the creation."""
        (topic,) = self.at[through].receive().topics
        return int(topic.error_code)

    def create(self, name: str, leaders: list[int], timeout_ms: int = 30_000) -> int:
        """Create a topic through the controller."""
        self.ask_to_create(name, leaders, self.controller, timeout_ms)
        return self.created(self.controller)

    def metadata(self, broker_id: int, name: str) -> Any:
        """The topic as one broker describes it."""
        request = m.MetadataRequest(topics=[m.MetadataRequest_MetadataRequestTopic(name=name)])
        request.allow_auto_topic_creation = False
        (topic,) = self.at[broker_id].call(request, 12).topics
        return topic

    def leaders(self, broker_id: int, name: str) -> Mapping[int, int] | None:
        """Leaders by partition in one broker's metadata; None if it does not know the topic."""
        topic = self.metadata(broker_id, name)
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        assert topic.error_code == 0
        for partition in topic.partitions:
            missing = partition.leader_id < 0
            assert partition.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if missing else 0)
        return {partition.partition_index: partition.leader_id for partition in topic.partitions}

    def await_leaders(self, broker_id: int, name: str, leaders: Mapping[int, int]) -> None:
        """Wait until a broker names these leaders."""
        until(lambda: self.leaders(broker_id, name) == leaders)

    def await_topic(self, broker_id: int, name: str) -> None:
        """Wait until a broker knows the topic."""
        until(lambda: self.leaders(broker_id, name))

    def produced(self, topic_id: Uuid, index: int, leader: int) -> int:
        """Return the error code of a record that is sent to the leader."""
        data = m.ProduceRequest_PartitionProduceData(index=index, records=batch(b"a"))
        topic = m.ProduceRequest_TopicProduceData(topic_id=topic_id, partition_data=[data])
        answer = self.at[leader].call(m.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 13)
        return int(answer.responses[0].partition_responses[0].error_code)

    def write(self, broker_id: int, name: str) -> None:
        """Write to each leader that the broker names."""
        topic = self.metadata(broker_id, name)
        for partition in topic.partitions:
            if partition.leader_id >= 0:
                code = self.produced(topic.topic_id, partition.partition_index, partition.leader_id)
                assert code == 0, (name, broker_id, partition, code)


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    with Scene(tmp_path, SETTINGS) as scene:
        scene.start()
        until(scene.all_vote)
        yield Clients(scene)


def test_a_stopped_broker_holds_up_only_what_it_leads(clients: Clients) -> None:
    controller, other, slow = clients.controller, clients.other, clients.slow
    with clients.stopped():
        assert clients.create("held", [slow], 500) == ErrorCode.REQUEST_TIMED_OUT
        assert clients.create("mixed", [other, slow, controller], 500) == ErrorCode.REQUEST_TIMED_OUT
        # This change follows the other two in the log: a broker that shows it has applied them.
        assert clients.create("free", [controller, other]) == 0
        assert clients.leaders(controller, "free") == {0: controller, 1: other}
        for broker_id in clients.running:
            clients.await_leaders(broker_id, "free", {0: controller, 1: other})
            clients.write(broker_id, "free")
            assert clients.leaders(broker_id, "held") is None
            clients.await_leaders(broker_id, "mixed", {0: other, 1: -1, 2: controller})
            clients.write(broker_id, "mixed")
        assert clients.create("held", [other]) == ErrorCode.TOPIC_ALREADY_EXISTS
    for broker_id in clients.scene.brokers:
        clients.await_leaders(broker_id, "held", {0: slow})
        clients.write(broker_id, "held")
        clients.await_leaders(broker_id, "mixed", {0: other, 1: slow, 2: controller})
        clients.write(broker_id, "mixed")


def test_a_leader_that_metadata_names_takes_records(clients: Clients) -> None:
    for number in range(ROUNDS):
        for broker_id, leader in enumerate(clients.scene.brokers, 1):
            name = f"round-{number}-{broker_id}"
            assert clients.create(name, [leader]) == 0
            for place in clients.scene.brokers:
                clients.await_topic(place, name)
                clients.write(place, name)


def test_a_leader_that_lags_is_named_when_it_takes_records(clients: Clients) -> None:
    controller, other, slow = clients.controller, clients.other, clients.slow
    for number in range(ROUNDS):
        name = f"round-{number}"
        with clients.stopped():
            clients.ask_to_create(name, [slow], controller)
            # This change follows the other one in the log: the other two brokers have applied both.
            clients.ask_to_create(f"{name}-after", [other], other)
            assert clients.created(other) == 0
        clients.await_topic(other, name)
        clients.write(other, name)
        assert clients.created(controller) == 0
        assert clients.leaders(controller, name) == {0: slow}
        clients.write(controller, name)


def test_a_change_of_controllers_does_not_end_the_wait(clients: Clients) -> None:
    """The next controller answers with the recorded reply, and the client still waits for the slow leader."""
    controller, other, slow = clients.controller, clients.other, clients.slow
    with clients.stopped():
        clients.ask_to_create("held", [slow], controller, 60_000)
        clients.ask_to_create("free", [other], other)
        assert clients.created(other) == 0
        # Name one running broker: the stopped one accepts a connection and answers nothing.
        address = clients.scene.brokers[controller].bootstrap
        done = CliRunner().invoke(cli, ["cluster", "quorum", "transfer", str(other), "-b", address, "--json"])
        assert json.loads(done.stdout) == {"leader": other}, done.output
    assert clients.created(controller) == 0
    clients.await_leaders(controller, "held", {0: slow})


def test_a_broker_that_starts_names_no_leader_that_has_not_applied_its_change(clients: Clients) -> None:
    """It names other leaders at once, also a stopped one."""
    controller, other, slow = clients.controller, clients.other, clients.slow
    assert clients.create("old", [slow, controller]) == 0
    with clients.stopped():
        assert clients.create("new", [slow, controller], 500) == ErrorCode.REQUEST_TIMED_OUT
        broker = clients.scene.brokers[other]
        broker.stop()
        broker.start()
        clients.at[other] = WireClient(broker.port)
        until(lambda: clients.leaders(other, "new") == {0: -1, 1: controller})
        clients.await_leaders(other, "old", {0: slow, 1: controller})
        assert clients.leaders(other, "new") == {0: -1, 1: controller}
    clients.await_leaders(other, "new", {0: slow, 1: controller})
    clients.write(other, "new")
