"""Brokers join a cluster by an address, lose their disks, and become voters and observers while clients continue."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli import cli
from pybroker.client import NewTopic, blocking
from pybroker.testing.child_processes import free_port
from tests.quorum.scene import PARTITIONS, Scene, until
from tests.support.brokers import PybrokerProcess


class JoiningBroker(PybrokerProcess):
    """A broker without configured voters; without an address of another broker, it founds a cluster."""

    def __init__(self, folder: Path, broker_id: int, join: int | None) -> None:
        super().__init__(folder)
        self.between = free_port()
        self.join = join
        self.settings |= {
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},BETWEEN://127.0.0.1:{self.between}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
            "offsets.topic.replication.factor": "3",
            "min.insync.replicas": "2",
            # A timeout that is too long for a slow machine to depose a leader.
            "controller.quorum.fetch.timeout.ms": "10000",
        }

    def command(self) -> list[str]:
        how = ["--set", "metadata.store=quorum"] if self.join is None else ["--join", f"127.0.0.1:{self.join}"]
        return [*super().command(), *how]

    @property
    def directory_id(self) -> str:
        lines = (self.data_dir / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))


class JoiningScene(Scene):
    """The first broker founds the cluster, and the others join it."""

    def __init__(self, folder: Path, size: int) -> None:
        first = JoiningBroker(folder / "broker-1", 1, None)
        others = {one: JoiningBroker(folder / f"broker-{one}", one, first.between) for one in range(2, size + 1)}
        self.brokers: dict[int, Any] = {1: first, **others}

    def start_these(self, *broker_ids: int) -> None:
        for one in broker_ids:
            self.brokers[one].launch()
        for one in broker_ids:
            self.brokers[one].await_answers()

    def quorum(self, *arguments: str) -> Any:
        """Return the output of `pybroker cluster quorum`."""
        options = ["--json", "--bootstrap-server", self.bootstrap]
        done = CliRunner().invoke(cli, ["cluster", "quorum", *arguments, *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def voters(self) -> dict[int, str]:
        """Return the directory ids of the voters."""
        rows = self.quorum("status")["replicas"]
        return {row["broker"]: row["directory_id"] for row in rows if row["role"] != "observer"}

    def until_voters(self, *broker_ids: int) -> None:
        wanted = {one: self.brokers[one].directory_id for one in broker_ids}
        until(lambda: self.voters() == wanted)

    def create(self, name: str, replicas: int) -> None:
        with blocking.AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, replicas)]).all()


def test_brokers_join_by_an_address(tmp_path: Path) -> None:
    with JoiningScene(tmp_path, 4) as scene:
        scene.start_these(1)
        assert scene.voters() == {1: scene.brokers[1].directory_id}
        scene.create("alone", 1)
        scene.start_these(2, 3)
        scene.until_voters(1, 2, 3)
        scene.create("a", 3)
        records = scene.produce("a", "first-", 100)

        # A fourth broker is an observer: it has the metadata, but no vote.
        scene.start_these(4)
        found: list[Any] = []

        def caught_up() -> bool:
            found.append({row["broker"]: row for row in scene.quorum("status")["replicas"]})
            return 4 in found[-1] and found[-1][4]["lag"] == 0

        until(caught_up)
        assert found[-1][4]["role"] == "observer"
        assert f"127.0.0.1:{scene.brokers[4].between}" in found[-1][4]["addresses"]
        assert found[-1][1]["role"] == "leader"
        # Later starts need neither the address nor the first broker.
        scene.brokers[1].kill()
        until(lambda: scene.quorum("status")["leader"] in (2, 3))
        scene.brokers[3].stop()
        scene.brokers[3].join = scene.brokers[1].between
        scene.start_these(3)
        scene.create("b", 3)
        scene.start_these(1)
        scene.until_voters(1, 2, 3)
        until(lambda: scene.read("a") == records)


def test_commands_change_voters(tmp_path: Path) -> None:
    with JoiningScene(tmp_path, 4) as scene:
        scene.start_these(1)
        scene.start_these(2, 3)
        scene.until_voters(1, 2, 3)
        scene.start_these(4)
        assert scene.quorum("transfer", "2") == {"leader": 2}
        until(lambda: scene.controller() == 2)
        until(lambda: 4 in {row["broker"] for row in scene.quorum("status")["replicas"]})
        assert scene.quorum("add", "4") == {"added": 4}
        assert scene.quorum("remove", "2") == {"removed": 2}
        # The removed leader hands over. No observer replaces it, because three voters are enough.
        until(lambda: scene.quorum("status")["leader"] in (1, 3, 4))
        assert set(scene.voters()) == {1, 3, 4}
        text = CliRunner().invoke(cli, ["cluster", "quorum", "status", "--bootstrap-server", scene.bootstrap]).output
        assert "3 voters, of which 2 are a majority; 1 observers" in text
        assert scene.brokers[2].directory_id in text


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_wiped_disk_is_another_voter(leads: bool, tmp_path: Path) -> None:
    with JoiningScene(tmp_path, 3) as scene:
        scene.start_these(1)
        scene.start_these(2, 3)
        scene.until_voters(1, 2, 3)
        wiped = 2
        scene.quorum("transfer", str(wiped if leads else 1))
        until(lambda: (scene.controller() == wiped) == leads)
        scene.create("a", 3)
        records = scene.produce("a", "first-", 300)
        before = scene.brokers[wiped].directory_id
        scene.brokers[wiped].kill()
        shutil.rmtree(scene.brokers[wiped].data_dir)
        until(lambda: scene.controller() != wiped)
        records |= scene.produce("a", "second-", 100)
        # Until the other brokers have noticed the end of the wiped broker, its id is in use.
        with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
            until(lambda: len(admin.describe_cluster().nodes) == 2)
        scene.start_these(wiped)
        assert scene.brokers[wiped].directory_id != before
        scene.until_voters(1, 2, 3)
        until(lambda: scene.in_sync("a") == [3] * PARTITIONS)
        # The wiped broker is a voter again: with its vote, and without another voter, the cluster decides.
        scene.brokers[3].kill()
        scene.create("b", 2)
        records |= scene.produce("a", "third-", 100)
        until(lambda: scene.read("a") == records)


class Load:
    """Creates topics and produces with acks=all until stopped; records the acknowledgements."""

    def __init__(self, scene: JoiningScene) -> None:
        self.scene = scene
        self.topics: set[str] = set()
        self.records: set[str] = set()
        self.failed: list[BaseException] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._create, self._produce)]

    def _run(self, work: Any) -> None:
        number = 0
        try:
            while not self._ends.is_set():
                work(number)
                number += 1
        except BaseException as error:
            self.failed.append(error)

    def _create(self, number: int) -> None:
        self.scene.create(f"load-{number}", 3)
        self.topics.add(f"load-{number}")

    def _produce(self, number: int) -> None:
        self.records |= self.scene.produce("a", f"load-{number}-", 20)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> None:
        """Wait until more topics and more records are acknowledged."""
        topics, records = len(self.topics), len(self.records)
        until(lambda: self.failed or (len(self.topics) > topics and len(self.records) > records))
        assert not self.failed


def test_three_five_three_voters_under_load(tmp_path: Path) -> None:
    with JoiningScene(tmp_path, 5) as scene:
        scene.start_these(1)
        scene.start_these(2, 3)
        scene.until_voters(1, 2, 3)
        scene.create("a", 3)
        with Load(scene) as load:
            load.goes_on()
            scene.start_these(4, 5)
            until(lambda: {4, 5} <= {row["broker"] for row in scene.quorum("status")["replicas"]})
            for one in (4, 5):
                scene.quorum("add", str(one))
                load.goes_on()
            assert set(scene.voters()) == {1, 2, 3, 4, 5}
            # Remove the leader last.
            for one in sorted((1, 2), key=lambda one: one == scene.quorum("status")["leader"]):
                scene.quorum("remove", str(one))
                load.goes_on()
            until(lambda: scene.quorum("status")["leader"] in (3, 4, 5))
            assert set(scene.voters()) == {3, 4, 5}
            load.goes_on()
        assert not load.failed
        # The new voters have the acknowledged changes: kill all brokers, and start them again.
        for broker in scene.brokers.values():
            broker.kill()
        scene.start()
        until(lambda: scene.read("a") == load.records)
        with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
            assert load.topics <= set(admin.list_topics())
