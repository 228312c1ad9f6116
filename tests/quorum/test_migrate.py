"""A single broker becomes a metadata quorum, and grows: `pybroker metadata migrate --to quorum`.

The migration dies by kill -9 at the end of each of its steps, and the next run continues it.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.broker.offline.quorum_directory import read_image
from pybroker.cli import cli
from pybroker.client import NewTopic, TopicCollection, blocking
from tests.quorum.scene import until
from tests.quorum.test_joining import JoiningBroker, JoiningScene
from tests.support.brokers import PybrokerProcess
from tests.upgrade.stored import DELETED, FOR_EVER, facts, fill, offsets_of, records, undeleted

LIMIT_S = 120
STEPS = ("written", "sealed", "opened", "put aside")
ALONE = {**FOR_EVER, "offsets.topic.replication.factor": "1", "min.insync.replicas": "1", "node.id": "1"}
DYING = """
import asyncio, os, signal, sys
from pybroker.config import load_config
from pybroker.broker.offline.quorum_migration import {function}

def told(step):
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run({function}(load_config(None, sys.argv[2:]).config, told))
"""


def assigned(settings: dict[str, str], data: Path) -> list[str]:
    return [f"{name}={value}" for name, value in {**settings, "log.dirs": str(data)}.items()]


def migrate(settings: dict[str, str], data: Path, *options: str, code: int = 0) -> str:
    """Run the command and return its output."""
    sets = [part for setting in assigned(settings, data) for part in ("--set", setting)]
    command = [sys.executable, "-m", "pybroker", "metadata", "migrate", "--to", "quorum", *options, "--yes", *sets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def dies(function: str, settings: dict[str, str], data: Path, step: str) -> None:
    """Kill the migration at the end of a step."""
    command = [sys.executable, "-c", DYING.format(function=function), step, *assigned(settings, data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def refusal(broker: PybrokerProcess) -> str:
    """Return the reason why the broker does not start."""
    broker.launch()
    assert broker.wait() != 0
    return broker.log_tail(5)


def deleted(broker: PybrokerProcess) -> tuple[str, dict[str, Any]]:
    """Delete a topic; return its id and its records."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        held = {"records": records(broker, DELETED, 2), "offsets": offsets_of(admin, DELETED)}
        topic_id = admin.list_topics()[DELETED].topic_id
        admin.delete_topics(TopicCollection.of_topic_ids([topic_id])).all()
    return str(topic_id), held


def last_transaction(data: Path) -> int:
    """Return the number of the last transaction in the embedded store."""
    with sqlite3.connect(f"file:{data / 'metadata.db.migrated'}?mode=ro", uri=True) as connection:
        (found,) = connection.execute("SELECT max(changed_zxid) FROM node").fetchone()
    return int(found)


@pytest.mark.checklist("B17")
def test_single_broker_becomes_a_quorum_and_grows(tmp_path: Path) -> None:
    scene = JoiningScene(tmp_path, 3)
    first: JoiningBroker = scene.brokers[1]
    alone = PybrokerProcess(first.folder, ALONE)
    data = first.data_dir
    try:
        alone.start()
        fill(alone, 1)
        topic_id, held = deleted(alone)
        alone.stop()
        first.settings |= {**FOR_EVER, "offsets.topic.replication.factor": "1", "min.insync.replicas": "1"}
        settings = {**first.settings, "metadata.store": "quorum"}
        assert "Move it with `pybroker metadata migrate --to quorum`" in refusal(first)

        for left in (".quorum-migration", ".quorum-migration-snapshot"):
            # This leaves the directory as a command that was killed while writing.
            (data / left).mkdir()
            (data / left / f"{0:020}-{0:010}.checkpoint").touch()
        dies("migrate_broker", settings, data, STEPS[0])
        # Until the seal the broker can run alone, and the next run also copies the changes made by then.
        alone.start()
        with blocking.AdminClient({"bootstrap.servers": alone.bootstrap}) as admin:
            admin.create_topics([NewTopic("meanwhile", 1, 1)]).all()
        before = facts(alone)
        alone.kill()
        for step in STEPS[1:3]:
            dies("migrate_broker", settings, data, step)
            assert "has moved to a metadata log. Start with metadata.store=quorum" in refusal(alone)
            assert "repeat the command if it was interrupted" in refusal(first)
        dies("migrate_broker", settings, data, STEPS[3])
        assert "has already moved to a metadata log" in migrate(settings, data, code=1)
        assert not list(data.glob(".quorum-migration*"))
        image = read_image(data)
        assert image.offset > last_transaction(data)

        first.start()
        assert facts(first) == before
        assert undeleted(first, topic_id) == held
        until(lambda: scene.voters() == {1: first.directory_id})
        assert read_image(data).brokers[1].epoch >= image.offset
        for broker_id in (2, 3):
            scene.brokers[broker_id].settings |= FOR_EVER
        scene.start_these(2, 3)
        scene.until_voters(1, 2, 3)
        scene.create("spread", 3)
        produced = scene.produce("spread", "value-", 100)
        first.kill()
        until(lambda: scene.controller() in (2, 3))
        until(lambda: scene.read("spread") == produced)
        first.start()
        assert records(first, DELETED, 2) == held["records"]
    finally:
        alone.end()
        for broker in scene.brokers.values():
            broker.kill()


def test_what_cannot_become_a_quorum(tmp_path: Path) -> None:
    broker = JoiningBroker(tmp_path, 1, None)
    settings, data = {**broker.settings, "metadata.store": "quorum"}, broker.data_dir
    assert "there is nothing to migrate" in migrate(settings, data, code=1)
    assert "use the settings for the metadata quorum" in migrate(ALONE, data, code=1)
    same = CliRunner().invoke(cli, ["metadata", "migrate", "--from", "zookeeper", "--to", "zookeeper"])
    assert "--from and --to name the same store" in same.output
    alone = PybrokerProcess(tmp_path, ALONE)
    alone.start()
    try:
        assert "is in use by a running broker" in migrate(settings, data, code=1)
    finally:
        alone.stop()
    # Another program has put a metadata log into the directory.
    (data / "__cluster_metadata-0").mkdir()
    (data / "__cluster_metadata-0" / f"{0:020}-{0:010}.checkpoint").touch()
    assert "is a metadata log already. Nothing was changed" in migrate(settings, data, code=1)
    assert (data / "metadata.db").exists()


def test_a_broker_without_its_metadata_log_says_what_to_do(tmp_path: Path) -> None:
    broker = JoiningBroker(tmp_path, 1, None)
    data = broker.data_dir
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    assert "`pybroker metadata migrate --from zookeeper --to quorum`" in refusal(broker)


def test_a_running_quorum_is_not_migrated(tmp_path: Path) -> None:
    broker = JoiningBroker(tmp_path, 1, None)
    settings = {**broker.settings, "metadata.store": "quorum"}
    told = migrate(settings, broker.data_dir, "--from", "zookeeper", code=1)
    assert "use the settings with which this broker ran on ZooKeeper" in told
