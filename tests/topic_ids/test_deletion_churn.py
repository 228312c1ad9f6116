"""A name is created, filled, deleted and re-created thousands of times while clients run: data of one incarnation never
appears in another, nothing returns, no data is left over, and no data is removed early."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.walk import files
from tests.topic_ids.lives import Lives, until, values_of
from tests.wire.client import WireClient

NAMES = ("churn-a", "churn-b")
GROUP = "churn-group"
DELAY_MS = 3_000
TROUBLE = {3, 6, 74, 100}
"""Errors that a client may get between two incarnations; it retries."""


@dataclass
class Watch:
    """Collects the results of the threads."""

    incarnations: int = 0
    problems: list[str] = field(default_factory=list)
    produced: int = 0
    read: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    removed_early: list[str] = field(default_factory=list)

    def run(self, work: Callable[[], None]) -> threading.Thread:
        def body() -> None:
            try:
                while not self.over.is_set():
                    work()
            except BaseException as problem:
                self.problems.append(repr(problem))
                self.over.set()
                raise

        thread = threading.Thread(target=body)
        thread.start()
        return thread


class ByName:
    """A client that knows a topic by its name and remembers the epoch that it has seen, on one connection."""

    def __init__(self, port: int, name: str) -> None:
        self.client = WireClient(port)
        self.name = name
        self.epoch = -1
        self.topic_id = Uuid.ZERO

    def refresh(self) -> bool:
        topics = [m.MetadataRequest_MetadataRequestTopic(name=self.name)]
        topic = self.client.call(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12).topics[0]
        if topic.error_code:
            return False
        # The epochs of a name never decrease.
        assert topic.partitions[0].leader_epoch >= self.epoch, (topic.partitions[0].leader_epoch, self.epoch)
        self.epoch, self.topic_id = topic.partitions[0].leader_epoch, topic.topic_id
        return True


def producer(watch: Watch, port: int, name: str) -> Callable[[], None]:
    """Write the id of the intended incarnation as the value. The requests use the id, so a record can only be in that
    incarnation."""
    lives, mine = Lives(port), ByName(port, name)

    def step() -> None:
        if not mine.refresh():
            time.sleep(0.001)
            return
        for _ in range(3):
            answer = lives.produce(mine.topic_id, str(mine.topic_id))
            if answer.error_code:
                assert answer.error_code in TROUBLE, answer.error_code
                return
            watch.produced += 1

    return step


def consumer(watch: Watch, port: int, name: str) -> Callable[[], None]:
    """Read by name from the start of the current incarnation, with its epoch; every value must name that id."""
    mine = ByName(port, name)
    place = [0]

    def step() -> None:
        before = mine.topic_id
        if not mine.refresh():
            time.sleep(0.001)
            return
        if mine.topic_id != before:
            place[0] = 0
        wanted = m.FetchRequest_FetchPartition(
            partition=0, fetch_offset=place[0], partition_max_bytes=1 << 20, current_leader_epoch=mine.epoch
        )
        topic = m.FetchRequest_FetchTopic(topic=name, partitions=[wanted])
        answer = mine.client.call(m.FetchRequest(topics=[topic], max_wait_ms=5, min_bytes=1), 12)
        part = answer.responses[0].partitions[0]
        if part.error_code:
            assert part.error_code in TROUBLE, part.error_code
            return
        for offset, value in values_of(part.records or b""):
            if value != str(mine.topic_id):
                watch.problems.append(f"{name}: a record of {value} at {offset} in {mine.topic_id}")
            place[0] = offset + 1
            watch.read += 1

    return step


def committer(watch: Watch, port: int, name: str) -> Callable[[], None]:
    """Commits as a consumer without a group would, with the epoch of its position."""
    lives, mine = Lives(port), ByName(port, name)

    def step() -> None:
        if not mine.refresh():
            time.sleep(0.001)
            return
        code = lives.commit(GROUP, name, mine.epoch, epoch=mine.epoch)
        if code and code not in TROUBLE:
            watch.problems.append(f"{name}: commit answered {code}")
        offset = lives.committed(GROUP, name)
        # The commit has the writer's epoch: an older epoch is a position in an earlier incarnation.
        if isinstance(offset, int) and 0 <= offset < mine.epoch:
            watch.problems.append(f"{name}: offset {offset} of an earlier incarnation in epoch {mine.epoch}")

    return step


def churn(broker: BrokerProcess, cycles: int) -> Watch:
    """Run administrators beside clients and check the responses. Run more cycles than requested if clients have hardly
    run meanwhile."""
    lives = Lives(broker.port)
    lives.coordinator(GROUP)
    watch = Watch()
    seen: set[Uuid] = set()
    threads = [watch.run(make(watch, broker.port, name)) for name in NAMES for make in (producer, consumer, committer)]
    try:
        while watch.incarnations < cycles or min(watch.produced, watch.read) <= cycles // 10:
            assert watch.incarnations < 10 * cycles, f"{watch.produced} records written beside it, {watch.read} read"
            for name in NAMES:
                watch.incarnations += 1
                topic_id = lives.create(name)
                assert topic_id not in seen
                seen.add(topic_id)
                for _ in range(2):
                    assert lives.produce(topic_id, str(topic_id)).error_code == 0
                assert lives.delete(name).error_code == 0
                assert lives.fetch(topic_id).error_code == 100
                assert lives.produce(topic_id, "late").error_code == 100
            if watch.over.is_set():
                break
    finally:
        watch.over.set()
        for thread in threads:
            thread.join()
    assert not watch.problems, watch.problems[:5]
    return watch


def settled(broker: BrokerProcess, cycles: int) -> None:
    """Check that no data of the deleted topics remains, and that none was removed early."""
    lives = Lives(broker.port)
    until(lambda: lives.deletions() == [], "all deletions")
    assert not list((broker.data_dir / "deleting").glob("*"))
    assert not list(broker.data_dir.glob("churn-*"))
    log = broker.console.read_text()
    assert "Traceback" not in log
    promised = re.findall(r"INFO topic deleted name=\S+ id=(\S+) by=\S+ undeletable_until=", log)
    removed = re.findall(r"INFO removed \d+ bytes of deleted topic \S+ \(id (\S+)\)", log)
    assert len(promised) == len(set(promised)) == cycles
    assert sorted(removed) == sorted(promised)


def never_early(broker: BrokerProcess) -> None:
    """Check in the broker's own log that each removal comes at least the delay after its deletion. On a slow machine
    the line of a deletion may come late; then the time in its text, in seconds, counts."""
    log = broker.console.read_text()
    deleted: dict[str, tuple[float, float]] = {}
    for line in log.splitlines():
        stamp = re.match(r"\[(\d+-\d+-\d+ \d+:\d+:\d+),(\d+)\]", line)
        if stamp is None:
            continue
        at = time.mktime(time.strptime(stamp[1], "%Y-%m-%d %H:%M:%S")) + int(stamp[2]) / 1000
        if found := re.search(r"INFO topic deleted name=\S+ id=(\S+) by=\S+ undeletable_until=(\S+) ", line):
            deleted[found[1]] = at, datetime.fromisoformat(found[2]).timestamp()
        elif found := re.search(r"INFO removed \d+ bytes of deleted topic \S+ \(id (\S+)\)", line):
            told, until_then = deleted[found[1]]
            assert at - told >= DELAY_MS / 1000 - 0.05 or at >= until_then, line


def orphans(folder: Path) -> list[Path]:
    """Return files that belong to no topic."""
    return [path for path in files(folder) if path.suffix in (".tmp", ".cleaned", ".swap", ".purging")]


def run(start_broker: StartBroker, cycles: int) -> tuple[Watch, float, Any]:
    broker = start_broker({"delete.topic.delay.ms": str(DELAY_MS)})
    began = time.monotonic()
    watch = churn(broker, cycles)
    took = time.monotonic() - began
    settled(broker, watch.incarnations)
    never_early(broker)
    broker.restart(crash=True)
    lives = Lives(broker.port)
    assert all(lives.metadata(name).error_code == 3 for name in NAMES)
    assert all(lives.create(name) for name in NAMES)
    assert all(lives.ends(name) == (0, 0) for name in NAMES)
    assert all(lives.committed(GROUP, name) in (-1, "loading") for name in NAMES)
    assert not orphans(broker.data_dir)
    return watch, took, broker


@pytest.mark.checklist("A3", "A9", "A23", "A26", "A29", "A30", "A32", 110, 112, 113, 190)
def test_forty_incarnations(start_broker: StartBroker) -> None:
    run(start_broker, 40)


@pytest.mark.slow
@pytest.mark.checklist("A3", "A9", "A32")
def test_two_thousand_incarnations(start_broker: StartBroker) -> None:
    watch, took, _ = run(start_broker, 2_000)
    print(f"2,000 incarnations in {took:.0f} s; {watch.produced} records written, {watch.read} read beside it")
