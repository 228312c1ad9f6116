"""Only the broker's user can access its files, whatever the umask: they contain records, SCRAM keys and passwords
(SECURITY.md)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import StartBroker
from tests.ingest.client import Attempt, IngestClient
from tests.support.brokers import BrokerProcess
from tests.support.delivered import offset_and_value
from tests.topic_ids.lives import until
from tests.trouble.traffic import create, send

WHILE_RUNNING = {
    "metadata.db",
    "metadata.db-wal",
    ".lock",
    "meta.properties",
    "partition.metadata",
    "leader-epoch-checkpoint",
    "*.log",
    "*.index",
    "*.timeindex",
    "*.txnindex",
    "*.snapshot",
    "diagnose.sock",
    "ingest/",
    "deleting/",
    "journal.0",
}


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """The broker inherits the umask: its files get exactly the modes that its code sets."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[Path, int]:
    """Return the modes of the directory and of everything in it."""
    found = [directory, *(Path(at, name) for at, folders, names in os.walk(directory) for name in folders + names)]
    return {each: stat.S_IMODE(each.lstat().st_mode) for each in found if each.exists()}


def wider(directory: Path, files: int, folders: int) -> dict[str, str]:
    """Return the files with wider modes than these."""
    return {
        str(path.relative_to(directory)): oct(mode)
        for path, mode in modes(directory).items()
        if mode & ~(folders if path.is_dir() else files)
    }


def used(broker: BrokerProcess) -> None:
    """Create a file of each kind: several segments, an aborted transaction, a deletion, an open load."""
    create(broker, "t", segment_bytes=1 << 20)
    send(broker, "t", 0, [b"x" * 400_000] * 4)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(60)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce("t", b"y" * 700_000, partition=0, on_delivery=lambda problem, sent: offset_and_value(sent))
        producer.flush(60)
        producer.abort_transaction(60)
    create(broker, "gone")
    with IngestClient(broker.port) as client:
        topic_id = client.create("loaded", 1)
        begun = client.begin(topic_id, "load")
        client.append(topic_id, "load", begun.epoch, Attempt(0), 0, ["v"] * 10)
    subprocess.run(
        [sys.executable, "-m", "pybroker", "topics", "delete", "gone", "--bootstrap-server", broker.bootstrap],
        check=True,
    )


def test_files_are_of_the_broker_s_user_only(start_broker: StartBroker) -> None:
    broker = start_broker()
    used(broker)

    def missing() -> set[str]:
        there = {f"{path.name}/" if path.is_dir() else path.name for path in modes(broker.data_dir)}
        suffixes = {f"*{Path(name).suffix}" for name in there}
        return WHILE_RUNNING - there - suffixes

    until(lambda: not missing(), str(WHILE_RUNNING))
    assert wider(broker.data_dir, 0o600, 0o700) == {}
    broker.stop()
    assert {"recovery-point-offset-checkpoint", ".kafka_cleanshutdown"} <= {
        each.name for each in modes(broker.data_dir)
    }
    assert wider(broker.data_dir, 0o600, 0o700) == {}


@pytest.mark.parametrize(("access", "files", "folders"), [("read", 0o640, 0o750), ("write", 0o660, 0o770)])
def test_the_group_has_access_by_a_setting(access: str, files: int, folders: int, start_broker: StartBroker) -> None:
    broker = start_broker({"log.dirs.group.access": access})
    create(broker, "t")
    assert wider(broker.data_dir, files, folders) == {}
    given = modes(broker.data_dir)
    assert given[broker.data_dir / "t-0"] == folders
    assert given[broker.data_dir / "t-0" / "partition.metadata"] == files


def test_offline_commands_make_private_files_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [
        sys.executable,
        "-m",
        "pybroker",
        "users",
        "add",
        "alice",
        "--password-file",
        "-",
        "--data-dir",
        str(data),
    ]
    subprocess.run(command, input=b"secret-of-alice\n", check=True)
    assert (data / "metadata.db").exists()
    assert wider(data, 0o600, 0o700) == {}
