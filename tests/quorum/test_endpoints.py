"""Controllers and brokers of a metadata quorum, as Kafka's kafka-cluster lists and unregisters them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.quorum.scene import QuorumBroker, Scene, until
from tests.support.kafka_tools import ToolError, run_tool
from tests.support.maven import QUORUM_TOOLS
from tests.wire.client import WireClient

OBSERVER = 4


class ObserverScene(Scene):
    """Three voters, and a broker that does not vote."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        voters = self.brokers[1].settings["controller.quorum.voters"]
        observer = QuorumBroker(folder / "observer", OBSERVER, {OBSERVER: free_port()})
        observer.settings["controller.quorum.voters"] = voters
        self.observer = observer

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.observer.kill()

    def all_vote(self) -> bool:
        """Return whether the three are voters, also according to the observer's log."""
        return "voters of the metadata log: 1, 2, 3 " in self.observer.console.read_text()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[ObserverScene]:
    with ObserverScene(tmp_path) as scene:
        scene.start()
        scene.observer.start()
        until(scene.all_vote)
        until(lambda: listed(scene, "--bootstrap-server") == {1, 2, 3, OBSERVER})
        yield scene


def tool(scene: Scene, command: str, how: str, *arguments: str) -> str:
    return run_tool("kafka-cluster", [command, how, scene.bootstrap, *arguments])


def listed(scene: Scene, how: str) -> set[int]:
    """Return the ids in the table of endpoints that Kafka's tool prints."""
    rows = [line.split() for line in tool(scene, "list-endpoints", how).splitlines()]
    header, *endpoints = rows
    assert header[:3] == ["ID", "HOST", "PORT"]
    assert {row[-1] for row in endpoints} == {"controller" if how == "--bootstrap-controller" else "broker"}
    return {int(row[0]) for row in endpoints}


def unregistered(scene: Scene, broker_id: int) -> tuple[int, str | None]:
    with WireClient(scene.brokers[1].port) as client:
        answer = client.call(m.UnregisterBrokerRequest(broker_id=broker_id), 0)
    return answer.error_code, answer.error_message


def test_voters_are_the_controllers_and_stay_registered(scene: ObserverScene) -> None:
    assert listed(scene, "--bootstrap-controller") == {1, 2, 3}
    with WireClient(scene.brokers[1].port) as client:
        answer = client.call(m.DescribeClusterRequest(endpoint_type=2), 1)
    assert (answer.error_code, answer.endpoint_type, answer.controller_id) == (0, 2, scene.controller())

    code, words = unregistered(scene, OBSERVER)
    assert code == ErrorCode.INVALID_REQUEST
    assert words is not None
    assert "is registered as running" in words
    assert "broker.session.timeout.ms" in words

    away = next(broker_id for broker_id in scene.brokers if broker_id not in (1, scene.controller()))
    scene.brokers[away].kill()
    scene.observer.kill()
    until(lambda: listed(scene, "--bootstrap-server") == scene.brokers.keys() - {away})
    assert listed(scene, "--bootstrap-controller") == scene.brokers.keys() - {away}
    code, words = unregistered(scene, away)
    assert code == ErrorCode.INVALID_REQUEST
    assert words is not None
    assert f"Broker {away} is a voter of the metadata quorum: remove it as a voter first" in words

    def states() -> dict[int, str]:
        rows = tool(scene, "list-endpoints", "--bootstrap-server", "--include-fenced-brokers").splitlines()[1:]
        return {int(row.split()[0]): row.split()[-2] for row in rows}

    stopped = {away: "fenced", OBSERVER: "fenced"}
    assert states() == dict.fromkeys(scene.brokers, "unfenced") | stopped
    with WireClient(scene.brokers[1].port) as client:
        listed_brokers = client.call(m.DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
    ports = {broker.broker_id: broker.port for broker in listed_brokers if broker.is_fenced}
    assert ports == {away: scene.brokers[away].port, OBSERVER: scene.observer.port}

    said = tool(scene, "unregister", "--bootstrap-controller", "--id", str(OBSERVER))
    assert f"Broker {OBSERVER} is no longer registered" in said
    with pytest.raises(ToolError, match=f"Broker {OBSERVER} is not registered"):
        tool(scene, "unregister", "--bootstrap-server", "--id", str(OBSERVER))
    assert states() == dict.fromkeys(scene.brokers, "unfenced") | {away: "fenced"}
    scene.start()
    until(lambda: states() == dict.fromkeys(scene.brokers, "unfenced"))


@pytest.mark.parametrize("how", ["--bootstrap-server", "--bootstrap-controller"])
def test_kafkas_tools_unregister_a_controller(scene: ObserverScene, how: str) -> None:
    """KIP-1312, with Kafka 4.4's kafka-metadata-quorum and kafka-cluster."""

    def unregister(controller_id: int) -> str:
        arguments = ["unregister-controller", how, scene.bootstrap, "--id", str(controller_id)]
        return run_tool("kafka-cluster", arguments, QUORUM_TOOLS)

    removed = next(broker_id for broker_id in scene.brokers if broker_id not in (1, scene.controller()))
    with pytest.raises(ToolError, match="cannot unregister itself while it is active"):
        unregister(scene.controller())
    with pytest.raises(ToolError, match=f"Controller {removed} is a voter of the metadata quorum: remove it"):
        unregister(removed)
    with pytest.raises(ToolError, match="Controller ID 9 is not registered"):
        unregister(9)

    broker = scene.brokers[removed]
    directory = re.search(r"^directory\.id=(.*)$", (broker.data_dir / "meta.properties").read_text(), re.MULTILINE)
    assert directory is not None
    broker.kill()
    voter = ["--controller-id", str(removed), "--controller-directory-id", directory.group(1), "--unregister"]
    said = run_tool("kafka-metadata-quorum", [how, scene.bootstrap, "remove-controller", *voter], QUORUM_TOOLS)
    assert f"Unregistered KRaft controller {removed}\n" in said
    assert f"Controller {removed} is no longer registered" in unregister(removed)
    assert listed(scene, "--bootstrap-controller") == scene.brokers.keys() - {removed}
    # The broker is still registered, and works after its restart.
    scene.start()
    until(lambda: listed(scene, "--bootstrap-server") == {1, 2, 3, OBSERVER})
