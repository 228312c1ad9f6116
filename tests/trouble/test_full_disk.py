"""A full disk: refusals name the cause, no acknowledged record is lost, other partitions continue, and free space ends
the state."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.disks import can_mount
from tests.support.wire import free_port
from tests.trouble.conftest import MakeDisk
from tests.trouble.traffic import PATIENCE_S, complaints, create, missing, read, send

LIMIT_BYTES = 1 << 20
VALUES = [bytes([65 + number % 26]) * 20_000 for number in range(20)]


class Room(NamedTuple):
    """A second log directory whose free space a test controls."""

    directory: Path
    take: Callable[[BrokerProcess], None]
    give: Callable[[BrokerProcess], None]


def pybroker(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def limit_files(broker: BrokerProcess, size: int) -> None:
    """Apply `ulimit -f` to a running process: writes beyond it fail like writes to a full disk."""
    if not broker.running:
        return
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.fixture(params=["disk", "limit"] if can_mount() else ["limit"])
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Room:
    if request.param == "limit":
        return Room(
            tmp_path / "second",
            lambda broker: limit_files(broker, LIMIT_BYTES),
            lambda broker: limit_files(broker, resource.RLIM_INFINITY),
        )
    make: MakeDisk = request.getfixturevalue("make_disk")
    disk = make(48)
    return Room(disk.path / "data", lambda broker: disk.fill(), lambda broker: disk.free())


@pytest.mark.checklist("C10")
def test_one_of_two_disks_is_full(room: Room, start_broker: StartBroker, tmp_path: Path) -> None:
    first = tmp_path / "first"
    broker = start_broker({"log.dirs": f"{first},{room.directory}"})
    create(broker, "t", 2)
    full, other = (0, 1) if (room.directory / "t-0").exists() else (1, 0)
    assert (room.directory / f"t-{full}").exists()
    assert (first / f"t-{other}").exists()
    sent = [send(broker, "t", full, VALUES), send(broker, "t", other, VALUES)]
    room.take(broker)
    # A few records may still fit into space that the file already has.
    tight = send(broker, "t", full, VALUES * 10)
    assert set(tight.refused) == {"KAFKA_STORAGE_ERROR"}
    meanwhile = send(broker, "t", other, VALUES[:3])
    assert not meanwhile.refused, "the other directory goes on"
    assert not missing(sent[0].acknowledged | tight.acknowledged, read(broker, "t", full)), "reading goes on"
    assert broker.running
    room.give(broker)
    after = send(broker, "t", full, VALUES)
    assert not after.refused, "room is all that it takes"
    kept = sent[0].acknowledged | tight.acknowledged | after.acknowledged
    assert list(kept) == list(range(len(kept))), "refused records leave no gap"
    broker.restart()
    assert not missing(kept, read(broker, "t", full))
    assert not missing(sent[1].acknowledged | meanwhile.acknowledged, read(broker, "t", other))
    assert not send(broker, "t", full, VALUES).refused


def test_a_full_disk_is_visible(room: Room, start_broker: StartBroker, tmp_path: Path) -> None:
    """A full disk is shown in the log, at /metrics, at /readyz if the settings say so, and in `cluster health`."""
    metrics = f"127.0.0.1:{free_port()}"
    settings = {"metrics.listener": metrics, "ready.log.dir.usable.bytes.min": "1"}
    broker = start_broker({"log.dirs": f"{tmp_path / 'first'},{room.directory}", **settings})
    create(broker, "t", 2)
    full = 0 if (room.directory / "t-0").exists() else 1
    labels = f'{{log_dir="{room.directory}"}}'

    def page() -> str:
        return get(metrics, "/metrics")[1]

    until(lambda: f"pybroker_log_dir_usable_bytes{labels} " in page())
    assert f"pybroker_log_dir_full_refusals_total{labels} 0" in page()
    assert get(metrics, "/readyz") == (200, "ready\n")
    room.take(broker)
    refused = len(send(broker, "t", full, VALUES * 10).refused)
    assert refused
    until(lambda: f"log directory full path={room.directory}" in broker.log_tail())
    assert f"pybroker_log_dir_full_refusals_total{labels} 0" not in page()
    status, why = get(metrics, "/readyz")
    assert status == 503
    assert str(room.directory) in why
    if room.directory.parent.is_mount():
        health = pybroker("cluster", "health", "--bootstrap-server", broker.bootstrap)
        assert health.returncode == 1
        assert f"the disk of log directory {room.directory} is full" in health.stdout
    room.give(broker)
    assert not send(broker, "t", full, VALUES).refused
    until(lambda: f"log directory has room again path={room.directory}" in broker.log_tail())
    until(lambda: get(metrics, "/readyz")[0] == 200)
    assert broker.log_tail().count("log directory full") == 1, "one line, not one a request"


@pytest.mark.skipif(not can_mount(), reason="needs a disk of its own")
def test_a_full_disk_does_not_fill_the_log(
    request: pytest.FixtureRequest, start_broker: StartBroker, tmp_path: Path
) -> None:
    """Checkpoints fail again and again: the first failure is in the log, then one line a minute, and the end."""
    disk = request.getfixturevalue("make_disk")(48)
    directory = disk.path / "data"
    often = dict.fromkeys(
        (
            "replica.high.watermark.checkpoint.interval.ms",
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.start.offset.checkpoint.interval.ms",
            "log.initial.task.delay.ms",
        ),
        "10",
    )
    broker = start_broker({"log.dirs": f"{tmp_path / 'first'},{directory}", **often})
    create(broker, "t", 2)
    full = 0 if (directory / "t-0").exists() else 1
    disk.fill()
    # Records that nearly fit use up the last blocks.
    assert send(broker, "t", full, VALUES * 10).refused

    def lines(text: str) -> list[str]:
        return [line for line in broker.console.read_text().splitlines() if text in line]

    until(lambda: bool(lines("checkpoint of high watermarks: no space left")))
    began = time.monotonic()
    time.sleep(3.0)
    minutes = int((time.monotonic() - began) / 60) + 1
    for what in ("high watermarks", "recovery points", "log starts"):
        assert len(lines(f"checkpoint of {what}")) <= 1 + minutes, broker.log_tail()
    disk.free()
    until(lambda: bool(lines("INFO checkpoint of high watermarks works again failures=")))
    assert not send(broker, "t", full, VALUES).refused


@pytest.mark.checklist("C10")
def test_the_only_disk_is_full(request: pytest.FixtureRequest, start_broker: StartBroker, tmp_path: Path) -> None:
    """The metadata store is on the same disk, and its reserve is used up. Either CreateTopics is refused, or the broker
    stops with one line. After a start with free space, all acknowledged data exists."""
    if not can_mount():
        _the_store_cannot_grow(start_broker)
        return
    disk = request.getfixturevalue("make_disk")(48)
    broker = start_broker({"log.dirs": str(disk.path / "data")})
    create(broker, "t")
    sent = send(broker, "t", 0, VALUES)
    (disk.path / "data" / "metadata.reserve").unlink()
    disk.fill()
    tight = send(broker, "t", 0, VALUES)
    assert set(tight.refused) == {"KAFKA_STORAGE_ERROR"}
    created = _create_until_refused(broker)
    assert created < 100, "the disk was not full"
    if not broker.running:
        assert broker.wait() == 1
        assert len(complaints(broker)) == 1, broker.log_tail()
    broker.kill()
    disk.free()
    broker.start()
    assert not missing(sent.acknowledged | tight.acknowledged, read(broker, "t", 0))
    for number in range(created):
        assert read(broker, f"more-{number}", 0) == {}, "a topic that was made is there"
    create(broker, "again")
    assert not send(broker, "again", 0, VALUES).refused
    broker.stop()


def test_topics_are_purged_on_the_only_disk_which_is_full(make_disk: MakeDisk, start_broker: StartBroker) -> None:
    """The metadata store is on the same disk, and reserves space for the commands that free space, and for a start."""
    disk = make_disk(64)
    broker = start_broker({"log.dirs": str(disk.path / "data")})
    create(broker, "t")
    send(broker, "t", 0, VALUES)
    disk.fill()
    broker.kill()
    broker.start()
    where = ("--bootstrap-server", broker.bootstrap)
    for command in (
        ("configs", "alter", "--topic", "t", "--add-config", "retention.ms=86400000"),
        ("topics", "delete", "t", "--now", "--yes"),
    ):
        done = pybroker(*command, *where)
        assert done.returncode == 0, done.stderr + broker.log_tail()
    assert "metadata store: the disk is full; released a part of the reserve" in broker.log_tail()
    assert not (disk.path / "data" / "t-0").exists()
    disk.free()
    create(broker, "again")
    assert not send(broker, "again", 0, VALUES).refused
    broker.stop()


def _the_store_cannot_grow(start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, "t")
    sent = send(broker, "t", 0, VALUES)
    limit_files(broker, 4096)
    assert _create_until_refused(broker) < 100
    broker.kill()
    broker.start()
    assert not missing(sent.acknowledged, read(broker, "t", 0))
    create(broker, "again")


def _create_until_refused(broker: BrokerProcess) -> int:
    for number in range(100):
        try:
            create(broker, f"more-{number}")
        except KafkaException as refused:
            code = refused.args[0].name()
            break
    else:
        return 100
    assert code in {"KAFKA_STORAGE_ERROR", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT"}
    return number


@pytest.mark.checklist("C10")
def test_a_start_on_a_full_disk(room: Room, start_broker: StartBroker) -> None:
    """The broker serves its data, or reports in one line that the disk is full; afterwards the data is intact."""
    broker = start_broker({"log.dirs": str(room.directory)})
    create(broker, "t")
    sent = send(broker, "t", 0, VALUES)
    room.take(broker)
    tight = send(broker, "t", 0, VALUES * 5)
    broker.kill()
    try:
        broker.start()
    except RuntimeError:
        assert len(complaints(broker)) == 1, broker.log_tail()
    else:
        assert not missing(sent.acknowledged | tight.acknowledged, read(broker, "t", 0))
        broker.kill()
    room.give(broker)
    broker.start()
    assert not missing(sent.acknowledged | tight.acknowledged, read(broker, "t", 0))
    assert not send(broker, "t", 0, VALUES).refused
