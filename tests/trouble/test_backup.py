"""The commands of docs/backup.md, unchanged, make a backup and restore it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pybroker.client import ConfigResource, NewTopic, TopicPartition, blocking
from tests.support.brokers import PybrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "backup.md"
LIMIT_S = 120.0
PARTITIONS = 3
Records = dict[tuple[int, int], tuple[bytes | None, bytes | None]]


def blocks() -> list[list[str]]:
    """Return the page's commands, by block, in order."""
    return [text.strip().splitlines() for text in re.findall(r"^```\n(.*?)^```$", PAGE.read_text(), re.M | re.S)]


class Machine:
    """The machine that the page describes, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = PybrokerProcess(folder / "var/lib/pybroker")
        self.settings = {"bootstrap.servers": self.broker.bootstrap}
        self._bin = folder / "bin"
        for name in (self._bin, folder / "backup"):
            name.mkdir(parents=True)
        command = self._bin / "pybroker"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pybroker "$@"\n')
        command.chmod(0o755)

    def run(self, block: list[str]) -> None:
        """Run every command of a block; each must succeed."""
        for line in block:
            if line.startswith("systemctl"):
                (self.broker.stop if line.split()[1] == "stop" else self.broker.start)()
                continue
            here = re.sub(r"/var/lib/pybroker|/backup", lambda path: f"{self.folder}{path[0]}", line)
            env = {
                **os.environ,
                "PATH": f"{self._bin}:{os.environ['PATH']}",
                "PYBROKER_BOOTSTRAP_SERVER": self.broker.bootstrap,
                "PYBROKER_PROFILE": os.devnull,
            }
            done = subprocess.run(
                ["bash", "-ec", here], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def read(self, topic: str) -> Records:
        """Return the records by partition and offset."""
        found: Records = {}
        with blocking.Consumer({**self.settings, "auto.offset.reset": "earliest"}) as consumer:
            partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            while len(found) < sum(ends.values()):
                for record in consumer.poll(1.0):
                    found[record.partition, record.offset] = record.key, record.value
        return found

    def write(self, topic: str, values: range) -> None:
        with blocking.Producer(self.settings) as producer:
            for value in values:
                producer.enqueue(topic, b"%d" % value, key=b"%d" % value)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    made.broker.start()
    yield made
    made.broker.kill()


def state(machine: Machine) -> tuple[object, Mapping[TopicPartition, int]]:
    """Return the topic's id and settings, and the group's positions."""
    with blocking.AdminClient(machine.settings) as admin:
        topic_id = admin.describe_topics(["orders"]).all_topic_names()["orders"].topic_id
        resource = ConfigResource.topic("orders")
        retention = admin.describe_configs([resource]).all()[resource]["retention.ms"].value
        positions = admin.list_consumer_group_offsets("billing")
        return (topic_id, retention, admin.describe_cluster().cluster_id), {
            where: at.offset for where, at in positions.items()
        }


def test_the_pages_commands_bring_everything_back(machine: Machine) -> None:
    # tests/quorum/test_backup.py runs the commands for the metadata log of a quorum.
    stop_and_copy, restore, to_files, from_files, positions = blocks()[:5]
    with blocking.AdminClient(machine.settings) as admin:
        admin.create_topics([NewTopic("orders", PARTITIONS, 1, config={"retention.ms": "86400000"})])
        machine.write("orders", range(1_000))
        admin.alter_consumer_group_offsets("billing", {TopicPartition("orders", 1): 7})
    records, before = machine.read("orders"), state(machine)
    assert len(records) == 1_000

    machine.run(stop_and_copy)
    assert machine.read("orders") == records
    machine.write("orders", range(1_000, 1_100))
    with blocking.AdminClient(machine.settings) as admin:
        admin.delete_consumer_group_offsets("billing", [TopicPartition("orders", 1)])
        admin.delete_topics(["orders"])
        admin.create_topics([NewTopic("orders", PARTITIONS, 1)])
    machine.run(restore)
    assert state(machine) == before
    assert machine.read("orders") == records
    machine.write("orders", range(1_100, 1_200))
    assert len(machine.read("orders")) == 1_100

    records = machine.read("orders")
    machine.run(to_files)
    machine.run(from_files)
    assert machine.read("orders-restored") == records
    machine.run(positions)
    assert state(machine) == before


def test_the_upgrade_pages_commands_are_known(tmp_path: Path) -> None:
    """The commands that concern pybroker itself; tests/packaging tries the installation of a wheel."""
    machine = Machine(tmp_path)
    page = PAGE.with_name("upgrade.md").read_text()
    (block,) = re.findall(r"^```\n(.*?)^```$", page, re.M | re.S)
    settings = tmp_path / "server.properties"
    settings.write_text(f"listeners=PLAINTEXT://{machine.broker.bootstrap}\nlog.dirs={machine.broker.data_dir}\n")
    machine.broker.start()
    try:
        lines = [
            line.replace("/etc/pybroker", str(tmp_path)) for line in block.splitlines() if "pip install" not in line
        ]
        assert len(lines) == 5
        machine.run(lines)
    finally:
        machine.broker.kill()
