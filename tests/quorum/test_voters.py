"""The voters of the metadata log: described and changed by Kafka's own tool, and over the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.quorum.scene import QuorumBroker, Scene, until
from tests.support.kafka_tools import run_tool
from tests.wire.client import WireClient


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    # A timeout that is too long for a slow machine to depose a leader.
    with Scene(tmp_path, {"controller.quorum.fetch.timeout.ms": "20000"}) as scene:
        scene.start()
        until(scene.all_vote)
        yield scene


def tool(scene: Scene, *arguments: str, how: str = "--bootstrap-server") -> str:
    return run_tool("kafka-metadata-quorum", [how, scene.bootstrap, *arguments])


def status(scene: Scene, how: str = "--bootstrap-server") -> dict[str, str]:
    """Return the tool's output by the words before the colon."""
    pairs = (line.partition(":") for line in tool(scene, "describe", "--status", how=how).splitlines())
    return {name: value.strip() for name, _, value in pairs if value}


def directory_of(broker: QuorumBroker) -> str:
    """Return the id of the broker's first log directory."""
    found = re.search(r"^directory\.id=(.*)$", (broker.data_dir / "meta.properties").read_text(), re.MULTILINE)
    assert found is not None
    return found.group(1)


def ids(text: str) -> list[int]:
    return sorted(voter["id"] for voter in json.loads(text))


def ask(broker: QuorumBroker, request: Any, version: int) -> Any:
    with WireClient(broker.port) as client:
        return client.call(request, version)


@pytest.mark.parametrize("how", ["--bootstrap-server", "--bootstrap-controller"])
def test_kafkas_tool_describes_adds_and_removes_voters(scene: Scene, tmp_path: Path, how: str) -> None:
    leader = scene.controller()
    said = status(scene, how)
    assert int(said["LeaderId"]) == leader
    assert int(said["LeaderEpoch"]) > 0
    assert int(said["HighWatermark"]) > 0
    assert ids(said["CurrentVoters"]) == [1, 2, 3]
    assert json.loads(said["CurrentObservers"]) == []
    first = next(voter for voter in json.loads(said["CurrentVoters"]) if voter["id"] == 1)
    assert first["directoryId"] == directory_of(scene.brokers[1])
    assert first["endpoints"] == [scene.brokers[1].settings["listeners"].split(",")[1]]
    lines = tool(scene, "describe", "--replication", how=how).splitlines()[1:]
    assert sorted((int(line.split()[0]), line.split()[-1]) for line in lines) == [
        (node, "Leader" if node == leader else "Follower") for node in (1, 2, 3)
    ]

    removed = next(node for node in scene.brokers if node != leader)
    broker = scene.brokers[removed]
    key = ["--controller-id", str(removed), "--controller-directory-id", directory_of(broker)]
    tool(scene, "remove-controller", *key, how=how)
    # The removed broker does not offer itself again, also after a restart.
    until(lambda: (broker.data_dir / "quorum-membership").read_text() == "removed")
    broker.stop()
    scene.start()
    said = status(scene)
    assert ids(said["CurrentVoters"]) == [node for node in (1, 2, 3) if node != removed]
    until(lambda: ids(status(scene)["CurrentObservers"]) == [removed])

    file = tmp_path / "controller.properties"
    file.write_text(
        f"process.roles=controller\nnode.id={removed}\ncontroller.listener.names=BETWEEN\n"
        f"listener.security.protocol.map={broker.settings['listener.security.protocol.map']}\n"
        f"listeners={broker.settings['listeners'].split(',')[1]}\nlog.dirs={broker.data_dir}\n"
    )
    tool(scene, "--command-config", str(file), "add-controller", how=how)
    assert ids(status(scene)["CurrentVoters"]) == [1, 2, 3]
    # The new voter's vote counts: with it, and without another voter, the cluster decides.
    other = next(node for node in scene.brokers if node not in (leader, removed))
    scene.brokers[other].kill()
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic("a", 1, 2)]).all()


def test_a_removed_leader_hands_over(scene: Scene) -> None:
    leader = scene.controller()
    directory = Uuid.parse(directory_of(scene.brokers[leader]))
    request = m.RemoveRaftVoterRequest(cluster_id=None, voter_id=leader, voter_directory_id=directory)
    answer = ask(scene.brokers[leader], request, 0)
    assert answer.error_code == ErrorCode.NONE
    until(lambda: scene.controller() != leader)
    until(lambda: ids(status(scene)["CurrentVoters"]) == [node for node in (1, 2, 3) if node != leader])


def _add(**given: Any) -> m.AddRaftVoterRequest:
    listener = m.AddRaftVoterRequest_Listener(name="BETWEEN", host="127.0.0.1", port=1)
    plain = {"cluster_id": None, "timeout_ms": 1500, "voter_id": 9, "voter_directory_id": Uuid.random()}
    return m.AddRaftVoterRequest(**{**plain, "listeners": [listener], **given})


def _remove(cluster_id: str | None) -> m.RemoveRaftVoterRequest:
    return m.RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=1, voter_directory_id=Uuid.random())


def test_refusals(scene: Scene) -> None:
    leader = scene.controller()
    follower = next(broker for node, broker in scene.brokers.items() if node != leader)
    cases: Sequence[tuple[Any, int]] = [
        (_add(), ErrorCode.REQUEST_TIMED_OUT),
        (_add(voter_id=1), ErrorCode.DUPLICATE_VOTER),
        (_add(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (_add(listeners=[]), ErrorCode.INVALID_REQUEST),
        (_add(voter_id=-1), ErrorCode.INVALID_REQUEST),
        (_remove(cluster_id=None), ErrorCode.VOTER_NOT_FOUND),
        (_remove(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (m.TransferQuorumLeaderRequest(successor_id=9, timeout_ms=5000), ErrorCode.VOTER_NOT_FOUND),
    ]
    for broker in (scene.brokers[leader], follower):
        for request, code in cases:
            answer = ask(broker, request, 0)
            assert answer.error_code == code, (request, answer)
            assert answer.error_message
        topic = m.DescribeQuorumRequest_TopicData(
            topic_name="t", partitions=[m.DescribeQuorumRequest_PartitionData(partition_index=0)]
        )
        answer = ask(broker, m.DescribeQuorumRequest(topics=[topic]), 2)
        assert answer.error_code == ErrorCode.NONE
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_leader_transfers_to_each_voter(scene: Scene) -> None:
    for successor in (1, 2, 3, 1):
        asked = scene.brokers[successor]
        answer = ask(asked, m.TransferQuorumLeaderRequest(successor_id=successor, timeout_ms=30_000), 0)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
        until(lambda successor=successor: scene.controller() == successor)  # type: ignore[misc]
