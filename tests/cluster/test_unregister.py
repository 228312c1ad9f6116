"""A broker that is lost for good: UnregisterBroker, also sent by Kafka's own tool, ends all waits for it. Its data is
not lost if it returns nevertheless."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pybroker.cli import cli
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.cluster.test_departed_replicas import left, receipt, roles
from tests.support.cluster import ClusterBroker, running_cluster, until
from tests.support.cluster_state import state_of
from tests.support.kafka_tools import run_tool
from tests.support.lives_in_cluster import Everywhere

SETTINGS = {"delete.topic.delay.ms": "0", "topic.history.max.incarnations": "1", "replica.lag.time.max.ms": "1000"}
LATER = {"delete.topic.delay.ms": "600000"}


def nodes(brokers: Everywhere, number: int) -> list[str]:
    """Return the store's nodes of a broker."""
    with state_of(brokers.cluster) as state:
        return state.known_of(number)


def unregister(broker: ClusterBroker, number: int) -> Result:
    arguments = ["cluster", "unregister", str(number), "--yes", "--bootstrap-server", broker.bootstrap]
    return CliRunner().invoke(cli, arguments)


@pytest.mark.checklist(5, 70, "R30")
def test_a_dead_broker_is_forgotten_and_loses_nothing_when_it_returns(tmp_path: Path) -> None:
    # A voter cannot be unregistered.
    with running_cluster(tmp_path, settings=SETTINGS, voters=1) as cluster:
        brokers = Everywhere(cluster)
        controller, other, number = roles(brokers)
        away, asked, lives = cluster.brokers[number], cluster.brokers[other], brokers.at(controller)
        # This broker keeps deleted data for longer than the others.
        away.stop()
        away.settings |= LATER
        away.start()
        topics = {name: lives.create_on(name, [controller, number]) for name in ("waiting", "deleted", "moved", "late")}
        for name in topics:
            brokers.written(name, "old", at=controller)
            until(lambda name=name: brokers.isr(name, controller) == {controller, number})
        assert lives.delete(topics["waiting"]).error_code == 0
        until(lambda: receipt(brokers, controller, topics["waiting"])[controller] == "removed")
        assert len(brokers.staged(number, topics["waiting"])) == 1
        assert "is registered as running" in unregister(asked, number).output
        away.kill()
        until(lambda: brokers.live(controller) == {controller, other})
        refused = unregister(asked, number)
        assert refused.exit_code == 1
        assert "still has replicas of 3 partitions (" in refused.output
        assert "moved-0" in refused.output
        for name in ("moved", "late"):
            brokers.move(name, [controller, other])
        for name in ("deleted", "late"):
            assert lives.delete(topics[name]).error_code == 0
        until(lambda: receipt(brokers, controller, topics["deleted"])[controller] in ("staged", "removed"))
        assert receipt(brokers, controller, topics["deleted"])[number] == "deleting"
        assert left(brokers, "moved") == {0: [number]}

        said = run_tool("kafka-cluster", ["unregister", "--bootstrap-server", asked.bootstrap, "--id", str(number)])
        assert f"Broker {number} is no longer registered." in said
        assert left(brokers, "moved") == {}
        # At most one tombstone is kept: no broker waits for one.
        until(lambda: sum(len(lives.deletions(topics[name])) for name in ("waiting", "deleted", "late")) == 1)
        until(lambda: not nodes(brokers, number))
        again = brokers.at(other).call(m.UnregisterBrokerRequest(broker_id=number), 0)
        assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert "BROKER_ID_NOT_REGISTERED" in unregister(asked, number).output
        gone = [name for name in ("waiting", "deleted", "late") if not lives.deletions(topics[name])]

        # The broker's data still exists: data of unknown topics waits for an operator.
        away.start()
        until(lambda: all(set(receipt(brokers, controller, topics[name]).values()) == {"found"} for name in gone))
        for name, topic_id in topics.items():
            (directory,) = brokers.staged(number, topic_id)
            assert b"old" in brokers.records_of(number, f"deleting/{directory.name}"), name
        assert brokers.read("moved") == ["old"]
        assert brokers.create("new")
        until(lambda: brokers.isr("new", controller) == {1, 2, 3})
