"""The expectations that tests have of a broker, whichever client they use."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tests.clients.api import Member, Received, Record

PARTITIONS = 4
PATIENCE_S = 120.0
POLL_S = 0.25


def records(count: int, partitions: int = PARTITIONS, tag: str = "r") -> list[Record]:
    """Return records of every shape that the format knows: with and without key, value and headers, and long ones."""
    made = []
    for number in range(count):
        key = None if number % 5 == 0 else f"{tag}-key-{number % 17}"
        value: str | None = f"{tag}-value-{number}-" + "x" * (number % 97) * 7
        if key is not None and number % 11 == 0:
            value = None  # a tombstone
        elif number % 31 == 0:
            value = ""
        headers = (("number", str(number)), ("tag", tag)) if number % 3 == 0 else ()
        made.append(Record(number % partitions, key, value, headers))
    return made


def by_partition(found: Iterable[Received]) -> dict[int, list[Received]]:
    """Return the records by partition, in the order received."""
    parts: dict[int, list[Received]] = defaultdict(list)
    for each in found:
        parts[each.partition].append(each)
    return dict(parts)


def check_log(found: Sequence[Received], sent: Sequence[Record], offsets: Sequence[int] | None = None) -> None:
    """Check that `found` equals `sent`: each partition in order, at offsets 0, 1, 2 …, which are the acknowledged
    ones."""
    expected: dict[int, list[Record]] = defaultdict(list)
    for record in sent:
        if offsets is not None:
            claimed, at = offsets[sum(map(len, expected.values()))], len(expected[record.partition])
            assert claimed == at, f"{record} is at offset {at}, but was acknowledged at {claimed}"
        expected[record.partition].append(record)
    parts = by_partition(found)
    assert {partition: len(rows) for partition, rows in parts.items()} == {
        partition: len(rows) for partition, rows in expected.items()
    }
    for partition, rows in parts.items():
        assert [row.offset for row in rows] == list(range(len(rows)))
        assert [row.sent() for row in rows] == expected[partition]


class Polling:
    """Several members of one group, polled in turn until a condition holds; keeps the records of each."""

    def __init__(self, *members: Member) -> None:
        self.members = list(members)
        self.received: list[Received] = []

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Poll until `holds()`; fail with `what` if that takes too long."""
        give_up = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < give_up, (
                f"{what}: not within {PATIENCE_S} s; assignments {[m.assignment() for m in self.members]}, "
                f"{len(self.received)} records received"
            )
            for member in self.members:
                self.received.extend(member.poll(POLL_S))

    def until_assigned(self, partitions: int = PARTITIONS) -> None:
        """Poll until every member has a partition, no partition has two members, and all partitions are assigned."""

        def shared_out() -> bool:
            held = [member.assignment() for member in self.members]
            return all(held) and sum(map(len, held)) == partitions and set().union(*held) == set(range(partitions))

        self.until(shared_out, f"{len(self.members)} member(s) share {partitions} partitions")

    def until_received(self, count: int) -> None:
        """Poll until `count` different records have arrived: a rebalance may deliver uncommitted ones again."""
        self.until(lambda: len({(r.partition, r.offset) for r in self.received}) >= count, f"{count} records")
