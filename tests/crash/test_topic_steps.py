"""Whenever the broker dies, a topic exists completely or not at all, and a deletion is final."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequest_CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsRequest_CreatableTopic,
    DeleteTopicsRequest,
    MetadataRequest,
    MetadataRequest_MetadataRequestTopic,
)
from tests.crash.child import TOPIC
from tests.support.wire import free_port
from tests.topic_ids.lives import Lives
from tests.wire.client import WireClient

PARTITIONS = 3
LIMIT_S = 120.0
"""Time limit for conditions that need no action of the test; a slow machine takes longer."""


class Crashing:
    """Broker processes, one after another, on one data directory and port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._child: subprocess.Popen[str] | None = None

    def start(self, step: str = "") -> None:
        command = [sys.executable, "-m", "tests.crash.child", str(self.directory), str(self.port), step]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n"

    def dies(self) -> None:
        assert self._child is not None
        assert self._child.wait(LIMIT_S) == -9

    def stop(self) -> None:
        assert self._child is not None
        self._child.terminate()
        assert self._child.wait(LIMIT_S) == 0

    def kill(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()

    def call(self, request: Any, version: int) -> Any:
        with WireClient(self.port) as client:
            return client.call(request, version)

    def create(self) -> Any:
        topic = CreateTopicsRequest_CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        return self.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]

    def delete(self) -> Any:
        return self.call(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=30_000), 5).responses[0]

    def grow(self, count: int) -> Any:
        topic = CreatePartitionsRequest_CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)
        return self.call(CreatePartitionsRequest(topics=[topic], timeout_ms=30_000), 3).results[0]

    def topic(self) -> Any:
        request = MetadataRequest(topics=[MetadataRequest_MetadataRequestTopic(name=TOPIC)])
        return self.call(request, 12).topics[0]

    def directories(self) -> dict[str, set[str]]:
        """Return partition directories by topic id in hex."""
        found: dict[str, set[str]] = {}
        for path in self.directory.glob(f"{TOPIC}-*"):
            try:
                text = (path / "partition.metadata").read_text()
            except FileNotFoundError:
                continue  # the directory was moved to deleting/ meanwhile
            found.setdefault(Uuid.parse(text.split("topic_id: ")[1].strip()).hex, set()).add(path.name)
        return found

    def deleting(self) -> set[str]:
        return {path.name for path in (self.directory / "deleting").glob("*")}


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[Crashing]:
    crashing = Crashing(tmp_path)
    yield crashing
    crashing.kill()


def whole(crashing: Crashing, count: int = PARTITIONS) -> Uuid:
    """Check that the topic exists: every partition has a leader and a directory with its id."""
    topic = crashing.topic()
    assert topic.error_code == 0
    assert [partition.error_code for partition in topic.partitions] == [0] * count
    assert crashing.directories() == {topic.topic_id.hex: {f"{TOPIC}-{index}" for index in range(count)}}
    topic_id: Uuid = topic.topic_id
    return topic_id


@pytest.mark.checklist("A1", "B16")
@pytest.mark.parametrize(
    ("step", "survives"),
    [
        ("before create is stored", False),
        ("after create is stored", True),
        ("before apply_partitions", True),
        ("after apply_partitions", True),
        ("before publish_metadata", True),
        ("after publish_metadata", True),
    ],
)
def test_create(crashing: Crashing, step: str, survives: bool) -> None:
    crashing.start(step)
    with pytest.raises(ConnectionError):
        crashing.create()
    crashing.dies()
    crashing.start()
    if survives:
        first = whole(crashing)
        assert crashing.create().error_code == 36
        assert whole(crashing) == first
    else:
        assert crashing.topic().error_code == 3
        assert crashing.directories() == {}
        assert crashing.create().error_code == 0
        whole(crashing)
    assert crashing.deleting() == set()
    crashing.stop()


@pytest.mark.checklist("A2", "A8", "B16")
@pytest.mark.parametrize(
    ("step", "gone"),
    [
        ("before delete is stored", False),
        ("after delete is stored", True),
        ("before publish_metadata", True),
        ("after publish_metadata", True),
        ("before promise is stored", True),
        ("after promise is stored", True),
        ("before stop_partitions", True),
        ("after stop_partitions", True),
        ("before staged is stored", True),
        ("after staged is stored", True),
    ],
)
def test_delete(crashing: Crashing, step: str, gone: bool) -> None:
    crashing.start()
    first = crashing.create().topic_id
    crashing.stop()
    crashing.start(step)
    # When the data is no longer visible, the remaining work runs while the response is being sent: the response may or
    # may not arrive.
    with contextlib.suppress(ConnectionError):
        assert crashing.delete().error_code == 0
    crashing.dies()
    crashing.start()
    if not gone:
        assert whole(crashing) == first
        assert crashing.delete().error_code == 0
    assert crashing.topic().error_code == 3
    second = crashing.create()
    assert second.error_code == 0
    assert second.topic_id != first
    assert whole(crashing) == second.topic_id
    assert crashing.deleting() == {f"{first.hex}_{index}" for index in range(PARTITIONS)}
    # The controller continues the deletion, not only the replicas.
    until(lambda: Lives(crashing.port).deletions(first)[0].state == "staged")
    crashing.stop()
    crashing.start()
    assert whole(crashing) == second.topic_id
    assert len(crashing.deleting()) == PARTITIONS
    crashing.stop()


@pytest.mark.checklist("A2")
@pytest.mark.parametrize("step", ["before purge", "after purge"])
def test_removal_goes_on(crashing: Crashing, step: str) -> None:
    crashing.start(step)
    crashing.create()
    # The data may be removed before the response is sent.
    with contextlib.suppress(ConnectionError):
        assert crashing.delete().error_code == 0
    crashing.dies()
    crashing.start("never purge")
    until(lambda: crashing.deleting() == set())
    assert crashing.create().error_code == 0
    whole(crashing)
    crashing.stop()


@pytest.mark.parametrize("step", ["before grow is stored", "after grow is stored", "after apply_partitions"])
def test_grow(crashing: Crashing, step: str) -> None:
    crashing.start()
    crashing.create()
    crashing.stop()
    crashing.start(step)
    with pytest.raises(ConnectionError):
        crashing.grow(5)
    crashing.dies()
    crashing.start()
    if step.startswith("before"):
        whole(crashing)
        assert crashing.grow(5).error_code == 0
    whole(crashing, 5)
    crashing.stop()


# --- undelete and truncate --------------------------------------------------------------------------------------------


def prepared(crashing: Crashing) -> tuple[Uuid, Lives]:
    """Return a topic with records and a committed offset, which is deleted or about to be truncated."""
    crashing.start()
    lives = Lives(crashing.port)
    first = crashing.create().topic_id
    for value in ("a", "b", "c"):
        assert lives.produce(TOPIC, value).error_code == 0
    lives.coordinator("g")
    assert lives.commit("g", TOPIC, 2, epoch=0) == 0
    return first, lives


def back(crashing: Crashing, lives: Lives, topic_id: Uuid, *, committed: int = 2) -> None:
    """Check that the topic exists as before, with its offsets, and that none of its data waits for removal."""
    assert whole(crashing) == topic_id
    assert lives.read(topic_id) == ["a", "b", "c"]
    until(lambda: lives.committed("g", TOPIC) != "loading")
    assert lives.committed("g", TOPIC) == committed
    until(lambda: lives.deletions(topic_id) == [])
    assert not {name for name in crashing.deleting() if name.startswith(topic_id.hex)}


@pytest.mark.checklist("A1", "A8", "A10", "R22", "B16")
@pytest.mark.parametrize(
    ("step", "begun"),
    [
        ("before undeleting is stored", False),
        ("after undeleting is stored", True),
        ("before restore_partitions", True),
        ("after restore_partitions", True),
        ("before live is stored", True),
        ("after live is stored", True),
        ("before apply_partitions", True),
        ("after apply_partitions", True),
        ("before publish_metadata", True),
        ("after publish_metadata", True),
        ("before finished is stored", True),
        ("after finished is stored", True),
    ],
)
def test_undelete(crashing: Crashing, step: str, begun: bool) -> None:
    first, lives = prepared(crashing)
    crashing.delete()
    until(lambda: lives.deletions(first)[0].state == "staged")
    crashing.stop()
    crashing.start(step)
    with contextlib.suppress(ConnectionError):
        assert lives.undelete(first).error_code == 0
    crashing.dies()
    crashing.start()
    if begun:
        until(lambda: crashing.topic().error_code == 0)
    else:
        assert crashing.topic().error_code == 3
        assert len(crashing.deleting()) == PARTITIONS
        assert lives.undelete(first).error_code == 0
    back(crashing, lives, first)
    crashing.stop()
    crashing.start()
    back(crashing, lives, first)
    crashing.stop()


@pytest.mark.checklist("A1", "A2", "A8", "B16", "U2")
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("step", "done"),
    [
        ("before set_fenced", False),
        ("after set_fenced", False),
        ("before truncate is stored", False),
        ("after truncate is stored", True),
        ("before publish_metadata", True),
        ("before promise is stored", True),
        ("after promise is stored", True),
        ("before stop_partitions", True),
        ("after stop_partitions", True),
        ("before apply_partitions", True),
        ("after apply_partitions", True),
        ("before staged is stored", True),
        ("after staged is stored", True),
    ],
)
def test_truncate(crashing: Crashing, step: str, done: bool, keep: bool) -> None:
    first, lives = prepared(crashing)
    crashing.stop()
    crashing.start(step)
    until(lambda: lives.committed("g", TOPIC) != "loading")
    with contextlib.suppress(ConnectionError):
        assert lives.truncate(TOPIC, keep_offsets=keep).error_code == 0
    crashing.dies()
    crashing.start()
    second = whole(crashing)
    assert (second != first) == done
    until(lambda: lives.committed("g", TOPIC) != "loading")
    if not done:
        back(crashing, lives, first)
        second = lives.truncate(TOPIC, keep_offsets=keep).topic_id
        assert whole(crashing) == second
    assert lives.ends(TOPIC) == ((3, 3) if keep else (0, 0))
    assert lives.committed("g", TOPIC) == (2 if keep else -1)
    assert lives.produce(TOPIC, "new").base_offset == (3 if keep else 0)
    # The old incarnation can be undeleted in every case.
    until(lambda: lives.deletions(first)[0].state == "staged")
    assert lives.undelete(first, "old").error_code == 0
    assert lives.read(first) == ["a", "b", "c"]
    assert lives.committed("g", "old") == 2
    crashing.stop()
