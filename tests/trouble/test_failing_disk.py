"""A failing disk: its directory goes offline at the first failure and stays offline, and the others continue. Without
any directory the broker stops."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.disks import can_mount
from tests.topic_ids.lives import until
from tests.trouble.conftest import MakeDisk
from tests.trouble.traffic import PATIENCE_S, Sent, complaints, create, missing, read, send

VALUES = [b"value %d" % number * 1_000 for number in range(50)]
PARTITIONS = 2


class FailingDirectory(NamedTuple):
    """A log directory that a test makes fail and, once the broker has ended, repairs."""

    directory: Path
    fail: Callable[[], None]
    mend: Callable[[], None]


@pytest.fixture
def doomed(request: pytest.FixtureRequest, tmp_path: Path) -> FailingDirectory:
    """The directory is on a disk that fails every call; if no such disk can be mounted, the directory is moved away."""
    if can_mount():
        make: MakeDisk = request.getfixturevalue("make_disk")
        disk = make(1024)
        return FailingDirectory(disk.path / "data", disk.cut, disk.reboot)
    here, gone = tmp_path / "doomed", tmp_path / "gone"

    def mend() -> None:
        shutil.rmtree(here, ignore_errors=True)
        gone.rename(here)

    def fail() -> None:
        here.rename(gone)

    return FailingDirectory(here, fail, mend)


def send_until_refused(broker: BrokerProcess, topic: str, partition: int) -> Sent:
    """Without the disk's help a failure shows when the next file is opened.

    One at a time: once the partition has no leader, records wait in the client for nothing.
    """
    total = Sent()
    give_up = time.monotonic() + 2 * PATIENCE_S
    for value in itertools.cycle(VALUES):
        if "KAFKA_STORAGE_ERROR" in total.refused or not broker.running:
            break
        assert time.monotonic() < give_up, f"the failure never showed; {total.refused}"
        sent = send(broker, topic, partition, [value], **{"message.timeout.ms": 10_000})
        total.acknowledged |= sent.acknowledged
        total.refused += sent.refused
    return total


@pytest.mark.checklist("C9", "C11", "C12")
def test_one_of_two_disks_fails(doomed: FailingDirectory, start_broker: StartBroker, tmp_path: Path) -> None:
    first = tmp_path / "first"
    broker = start_broker({"log.dirs": f"{first},{doomed.directory}"})
    create(broker, "t", 2, segment_bytes=1 << 20)
    bad, good = (0, 1) if (doomed.directory / "t-0").exists() else (1, 0)
    sent = [send(broker, "t", bad, VALUES), send(broker, "t", good, VALUES)]
    doomed.fail()
    failed = send_until_refused(broker, "t", bad)
    assert set(failed.refused) <= {"KAFKA_STORAGE_ERROR", "NOT_LEADER_OR_FOLLOWER", "_MSG_TIMED_OUT"}
    assert "KAFKA_STORAGE_ERROR" in failed.refused
    meanwhile = send(broker, "t", good, VALUES)
    assert not meanwhile.refused
    assert not missing(sent[1].acknowledged | meanwhile.acknowledged, read(broker, "t", good))
    again = send(broker, "t", bad, VALUES[:1], **{"message.timeout.ms": 2000})
    assert not again.acknowledged, "the first failure is final"
    said = f"log directory {doomed.directory} is offline"
    until(lambda: said in broker.console.read_text())
    assert broker.console.read_text().count(said) == 1, broker.log_tail()
    create(broker, "later", 2)
    assert not send(broker, "later", 0, VALUES).refused, "new partitions go where there is a disk"
    broker.stop()
    doomed.mend()
    broker.start()
    assert not missing(sent[0].acknowledged | failed.acknowledged, read(broker, "t", bad))
    assert not missing(sent[1].acknowledged | meanwhile.acknowledged, read(broker, "t", good))
    assert not send(broker, "t", bad, VALUES).refused


@pytest.mark.checklist("C12")
def test_a_start_while_one_of_two_disks_fails(
    doomed: FailingDirectory, start_broker: StartBroker, tmp_path: Path
) -> None:
    """The disk's partitions stay offline; they are not created again, empty, on the other disk."""
    first = tmp_path / "first"
    broker = start_broker({"log.dirs": f"{first},{doomed.directory}"})
    create(broker, "t", 2)
    bad, good = (0, 1) if (doomed.directory / "t-0").exists() else (1, 0)
    sent = [send(broker, "t", bad, VALUES), send(broker, "t", good, VALUES)]
    broker.stop()
    doomed.fail()
    if not can_mount():
        doomed.directory.symlink_to(doomed.directory)
    broker.start()
    assert not missing(sent[1].acknowledged, read(broker, "t", good))
    assert not send(broker, "t", bad, VALUES[:1], **{"message.timeout.ms": 2000}).acknowledged
    assert not (first / f"t-{bad}").exists()
    broker.stop()
    if not can_mount():
        doomed.directory.unlink()
    doomed.mend()
    broker.start()
    assert not missing(sent[0].acknowledged, read(broker, "t", bad))


@pytest.mark.checklist("C9")
def test_the_only_disk_fails(doomed: FailingDirectory, start_broker: StartBroker) -> None:
    """The broker halts, as Kafka does when no log directory is left: one line, exit code 1."""
    broker = start_broker({"log.dirs": str(doomed.directory)})
    create(broker, "t", 1, segment_bytes=1 << 20)
    sent = send(broker, "t", 0, VALUES)
    doomed.fail()
    failed = send_until_refused(broker, "t", 0)
    assert broker.wait() == 1
    said = complaints(broker)
    assert len(said) == 1, broker.log_tail()
    assert str(doomed.directory) in said[0]
    doomed.mend()
    broker.start()
    assert not missing(sent.acknowledged | failed.acknowledged, read(broker, "t", 0))
    assert not send(broker, "t", 0, VALUES).refused
