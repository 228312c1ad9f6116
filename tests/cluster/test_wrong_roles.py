"""An order of the controller is lost: the broker notices that a partition's role differs from the published metadata,
and corrects it; until then `cluster health` is red."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pybroker.client import ElectionType, TopicPartition, blocking
from tests.cluster.loses_orders import LEADERS, MENDING, flag
from tests.support.cluster import LIMIT_S, BrokerCluster, running_cluster, until
from tests.support.lives_in_cluster import Everywhere
from tests.support.taking_records import all_take_a_record

pytestmark = pytest.mark.only_on_zookeeper("ZooKeeper's own: LeaderAndIsr gets lost")

MENDED_S = 20.0


def ports(cluster: BrokerCluster) -> dict[int, int]:
    """Ports of the running brokers."""
    return {number: broker.port for number, broker in cluster.brokers.items() if broker.running}


def reconciled(cluster: BrokerCluster, number: int) -> list[str]:
    """Corrections that a broker reports."""
    lines = cluster.brokers[number].console.read_text().splitlines()
    return [line for line in lines if "partition reconciled: " in line or "partition not reconciled: " in line]


def test_a_lost_election_is_mended(tmp_path: Path) -> None:
    """The leader dies. Its successor never gets its order, although clients see it as the leader."""
    with running_cluster(tmp_path, module=("tests.cluster.loses_orders", str(tmp_path))) as cluster:
        brokers = Everywhere(cluster)
        controller = brokers.controller()
        dying, leading = sorted({1, 2, 3} - {controller})
        topic_id = brokers.at(controller).create_on("t", [dying, leading], [leading, controller])
        brokers.written("t", "before", controller)
        until(lambda: brokers.isr("t", controller) == {dying, leading})
        flag(tmp_path, LEADERS, leading).touch()
        cluster.brokers[dying].kill()
        until(lambda: brokers.leader("t", controller) == leading)
        assert all_take_a_record(ports(cluster), at=controller, patience_s=MENDED_S) == {}
        (line,) = reconciled(cluster, leading)
        assert f"topic=t partition=0 id={topic_id} leader_epoch=1 " in line
        assert f"found='follows {dying} in epoch 0 but should lead' done='LeaderAndIsr applied again'" in line


def test_a_lost_creation_is_mended(tmp_path: Path) -> None:
    """The first replica never gets its order: it has no log. Another replica may have records by then, so the broker
    does not create an empty log: the controller decides."""
    with running_cluster(tmp_path, module=("tests.cluster.loses_orders", str(tmp_path))) as cluster:
        brokers = Everywhere(cluster)
        controller = brokers.controller()
        losing, other = sorted({1, 2, 3} - {controller})
        flag(tmp_path, LEADERS, losing).touch()
        brokers.at(controller).create_on("t", [losing, other, controller])
        until(lambda: reconciled(cluster, losing))
        assert all_take_a_record(ports(cluster), at=controller, patience_s=MENDED_S) == {}
        first, *_ = reconciled(cluster, losing)
        assert "error=LOG_DIR_NOT_FOUND" in first
        # The order to follow the next leader is lost, too.
        until(lambda: brokers.isr("t", controller) == {1, 2, 3})
        assert "leader_epoch=1 found='should follow" in reconciled(cluster, losing)[-1]
        text = "".join(broker.console.read_text() for broker in cluster.brokers.values())
        assert "is gone from this broker" not in text
        assert "may be lost" not in text


def test_a_follower_that_never_got_its_order_is_mended(tmp_path: Path) -> None:
    """The follower counts as in sync, but has no log."""
    with running_cluster(tmp_path, module=("tests.cluster.loses_orders", str(tmp_path))) as cluster:
        brokers = Everywhere(cluster)
        controller = brokers.controller()
        losing, leading = sorted({1, 2, 3} - {controller})
        flag(tmp_path, LEADERS, losing).touch()
        brokers.at(controller).create_on("t", [leading, losing, controller])
        until(lambda: reconciled(cluster, losing))
        until(lambda: "LeaderAndIsr applied again" in reconciled(cluster, losing)[-1])
        assert all_take_a_record(ports(cluster), at=controller, patience_s=MENDED_S) == {}
        until(lambda: brokers.isr("t", controller) == {1, 2, 3})
        until((cluster.brokers[losing].data_dir / "t-0").exists)


def health(cluster: BrokerCluster, at: int) -> dict[str, Any]:
    """The output of `pybroker cluster health --json`."""
    server = cluster.brokers[at].bootstrap
    command = [sys.executable, "-m", "pybroker", "cluster", "health", "--json", "--bootstrap-server", server]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_health_names_the_leader_that_does_not_lead(tmp_path: Path) -> None:
    """The leader refuses ListOffsets, whatever its own state is. It reports the fault once it has noticed it."""
    with running_cluster(tmp_path, module=("tests.cluster.loses_orders", str(tmp_path))) as cluster:
        brokers = Everywhere(cluster)
        controller = brokers.controller()
        leading = min({1, 2, 3} - {controller})
        topic_id = brokers.at(controller).create_on("t", [controller, leading])
        brokers.written("t", "before", controller)
        until(lambda: health(cluster, controller)["healthy"])
        partition = TopicPartition("t", 0)
        with blocking.AdminClient({"bootstrap.servers": cluster.brokers[controller].bootstrap}) as admin:
            admin.alter_partition_reassignments({partition: [leading, controller]})
            until(lambda: not admin.list_partition_reassignments())
            for what in (LEADERS, MENDING):
                flag(tmp_path, what, leading).touch()
            admin.elect_leaders(ElectionType.PREFERRED, [partition])
        until(lambda: brokers.leader("t", controller) == leading)
        (problem,) = health(cluster, controller)["problems"]
        assert (problem["what"], problem["topic_id"], problem["broker"]) == ("wrong_role", str(topic_id), leading)
        until(lambda: "but should lead" in health(cluster, controller)["problems"][0]["says"])
        flag(tmp_path, MENDING, leading).unlink()
        until(lambda: health(cluster, controller)["healthy"])
