"""The checker finds each fault: in each test, one change damages the files of a good run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.checker import check
from tests.chaos.history import Delivered, History, Place, Session
from tests.support.log_files import HEADER, Batch, ReplicaLog

STEADY, KEYED, LIFE = "a" * 32, "b" * 32, "c" * 32
BROKERS = (1, 2, 3)


def number(value: int) -> bytes:
    """Return the number as a varint."""
    zigzag, out = (value << 1) ^ (value >> 63), bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def text(value: str | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value.encode()


def batch(offset: int, value: str, key: str | None = None, epoch: int = 0, sequence: int | None = None) -> Batch:
    body = b"\0" + number(0) + number(0) + text(key) + text(value) + number(0)
    record = number(len(body)) + body
    first = offset if sequence is None else sequence
    size = HEADER.size - 12 + len(record)
    raw = HEADER.pack(offset, size, epoch, 2, 0, 0, 0, 0, 0, 7, 0, first, 1) + record
    return Batch(offset, offset, epoch, 7, 0, first, raw)


def log(topic: str, topic_id: str, *batches: Batch) -> ReplicaLog:
    end = batches[-1].last_offset + 1 if batches else 0
    return ReplicaLog(Path("/"), topic, topic_id, 0, end, batches)


class Run:
    """Files and a history that match each other."""

    def __init__(self) -> None:
        self.history = History(topics={"steady": STEADY, "keyed": KEYED}, lives={LIFE: "churned"})
        place = Place(STEADY, 0)
        for offset in range(4):
            self.history.acknowledge(place, offset, f"w/{offset}", time.monotonic())
        session = Session(place, -1, [Delivered(offset, f"w/{offset}") for offset in range(4)])
        self.history.sessions.append(session)
        self.history.keys[Place(KEYED, 0), "k"] = 5
        self.history.acknowledge(Place(LIFE, 0), 0, f"{LIFE}/0", time.monotonic())
        self.assigned = {Place(one, 0): frozenset(BROKERS) for one in (STEADY, KEYED, LIFE)}
        self.steady = [batch(offset, f"w/{offset}") for offset in range(4)]
        self.disks = {
            broker: [
                log("steady", STEADY, *self.steady),
                # One broker has compacted the topic, the others have not yet.
                log("keyed", KEYED, *([batch(3, "w/4", "k")] if broker > 1 else []), batch(4, "w/5", "k")),
                log("churned", LIFE, batch(0, f"{LIFE}/0")),
            ]
            for broker in BROKERS
        }

    def found(self) -> list[str]:
        return check(self.history, self.disks, self.assigned, frozenset({"keyed"}))

    def replace(self, old: str, *batches: Batch, brokers: tuple[int, ...] = BROKERS) -> None:
        """Replace the batches in a topic's log."""
        for broker in brokers:
            self.disks[broker] = [
                log(one.topic, one.topic_id, *batches) if one.topic == old else one
                for one in self.disks[broker]
            ]


def test_a_good_run() -> None:
    assert Run().found() == []


def lost(run: Run) -> None:
    run.replace("steady", *run.steady[:3])


def lost_on_one(run: Run) -> None:
    run.replace("steady", *run.steady[:3], brokers=(2,))


def replaced(run: Run) -> None:
    run.replace("steady", *run.steady[:3], batch(3, "w/7"))


def doubled(run: Run) -> None:
    run.replace("steady", *run.steady, batch(4, "w/3", sequence=4))


def sequence_again(run: Run) -> None:
    run.replace("steady", *run.steady, batch(4, "w/4", sequence=3))


def out_of_order(run: Run) -> None:
    run.replace("steady", *run.steady, batch(4, "w/9"), batch(5, "w/8"))


def diverged(run: Run) -> None:
    run.replace("steady", *run.steady, batch(4, "w/8"), brokers=(1, 2))
    run.replace("steady", *run.steady, batch(4, "w/8", epoch=1), brokers=(3,))


def epoch_falls(run: Run) -> None:
    run.replace("steady", *run.steady, batch(4, "w/8", epoch=2), batch(5, "w/9", epoch=1))


def stale_key(run: Run) -> None:
    run.replace("keyed", batch(3, "w/4", "k"), brokers=(2,))


def other_incarnation(run: Run) -> None:
    run.replace("churned", batch(0, f"{LIFE}/0"), batch(1, f"{'d' * 32}/1"))


def came_back(run: Run) -> None:
    run.history.deleted.add(LIFE)


def two_incarnations(run: Run) -> None:
    run.disks[1].append(log("churned", "d" * 32))


def nobody_has_it(run: Run) -> None:
    for broker in BROKERS:
        run.disks[broker] = [one for one in run.disks[broker] if one.topic != "steady"]


def one_has_it_not(run: Run) -> None:
    run.disks[3] = [one for one in run.disks[3] if one.topic != "steady"]


def moved_away_and_still_there(run: Run) -> None:
    run.assigned[Place(STEADY, 0)] = frozenset({1, 2})


def unknown_to_the_store(run: Run) -> None:
    del run.assigned[Place(STEADY, 0)]


def read_what_is_gone(run: Run) -> None:
    run.history.sessions[0].delivered.append(Delivered(4, "w/4"))


def skipped(run: Run) -> None:
    del run.history.sessions[0].delivered[1]


def commit_lost(run: Run) -> None:
    run.history.sessions.append(Session(Place(STEADY, 0), 3, [Delivered(2, "w/2"), Delivered(3, "w/3")]))


def appended_before_it_was_sent(run: Run) -> None:
    records = run.history.acknowledged[Place(STEADY, 0)]
    records[1] = records[1]._replace(sent_at=records[3].answered_at + 1, answered_at=records[3].answered_at + 2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lost, "is lost"),
        (lost_on_one, "is lost"),
        (replaced, "is lost"),
        (doubled, "more than once"),
        (sequence_again, "comes again"),
        (out_of_order, "comes after"),
        (diverged, "differ below the high watermark"),
        (epoch_falls, "leader epoch 1 after 2"),
        (stale_key, "5 was acknowledged"),
        (other_incarnation, "another incarnation"),
        (came_back, "which was deleted"),
        (two_incarnations, "2 incarnations"),
        (nobody_has_it, "broker 1 has no replica"),
        (moved_away_and_still_there, "broker 3 has a replica"),
        (unknown_to_the_store, "is not there, for which 4 records"),
        (one_has_it_not, "broker 3 has no replica"),
        (read_what_is_gone, "where None is"),
        (skipped, "came after"),
        (commit_lost, "had been acknowledged"),
        (appended_before_it_was_sent, "w/1 at offset 1 was sent after w/2 had been acknowledged"),
    ],
)
def test_what_is_wrong_is_said(change: Callable[[Run], None], sentence: str) -> None:
    run = Run()
    change(run)
    found = run.found()
    assert any(sentence in one for one in found), found


def test_a_short_replica_is_short_although_nothing_was_acknowledged() -> None:
    run = Run()
    run.replace("steady", *run.steady, batch(4, "w/8"), brokers=(1, 2))
    assert any("ends at 4, and 5 is the high watermark" in one for one in run.found())
