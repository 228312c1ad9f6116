"""Plans replica moves that empty brokers (`drain`), balance the load (`balance`), or change replication factors
(`replicate`). Pure: a plan is a list of moves, which a reassignment executes.

A plan moves as few bytes as possible. A move never reduces the number of racks that a partition spans; a target that
increases this number is preferred. As in the placement of new topics, racks are considered only if every broker has a
rack.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

import msgspec

BYTES_TOLERANCE = 0.1
"""Tolerated difference between a broker's bytes and the mean, as a fraction. `balance` ignores smaller differences,
because the copies would cost more than they gain."""


class PlanError(ValueError):
    """The request cannot be planned. The message gives the reason."""


class PlanBroker(msgspec.Struct, frozen=True):
    """A broker that may hold replicas."""

    broker_id: int
    rack: str | None = None


class PlanPartition(msgspec.Struct, frozen=True):
    """A partition. If it is being reassigned, its replicas are the target replicas."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """The preferred leader comes first."""
    size_bytes: int = 0
    """Size of one replica in bytes."""


class Move(msgspec.Struct, frozen=True):
    """A partition to reassign."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int

    @property
    def adding(self) -> tuple[int, ...]:
        """Return the brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Return the brokers that lose their replica."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def moved_bytes(self) -> int:
        """Return the bytes to copy; 0 if only the preferred leader changes."""
        return self.size_bytes * len(self.adding)


Plan = tuple[Move, ...]
"""A plan: the partitions to reassign, sorted by topic and partition. Each occurs once."""


def drain(partitions: Iterable[PlanPartition], brokers: Iterable[PlanBroker], leaving: Collection[int]) -> Plan:
    """Move every replica off the leaving brokers. Each replica goes to the least loaded broker and keeps its position
    in the replica list. `brokers` has all live brokers; the leaving brokers may be among them.

    Raises PlanError if too few brokers are left for a partition's replicas.
    """
    layout = _Layout(partitions, [broker for broker in brokers if broker.broker_id not in leaving])
    concerned = [key for key in layout.partitions if not layout.replicas[key].isdisjoint(leaving)]
    # Place large replicas first, because small replicas can balance the rest.
    for key in sorted(concerned, key=lambda one: -layout.partitions[one].size_bytes):
        for old in layout.order[key]:
            if old in leaving:
                layout.replace(key, old, layout.target(key, old))
    return layout.plan()


def replicate(
    partitions: Iterable[PlanPartition], brokers: Iterable[PlanBroker], factors: Mapping[str, int]
) -> Plan:
    """Change the replication factor of topics. New replicas go to the least loaded brokers; surplus replicas are
    removed from the end of the replica list.

    Raises PlanError if the factor is below 1 or above the number of live brokers.
    """
    layout = _Layout(partitions, brokers)
    for key, partition in layout.partitions.items():
        factor = factors.get(partition.topic)
        if factor is None:
            continue
        if factor < 1:
            raise PlanError(f"topic '{partition.topic}' cannot have {factor} replicas")
        while len(layout.order[key]) < factor:
            layout.add(key, layout.target(key, None))
        for surplus in layout.order[key][factor:]:
            layout.remove(key, surplus)
    return layout.plan()


def balance(
    partitions: Iterable[PlanPartition],
    brokers: Iterable[PlanBroker],
    *,
    bytes_tolerance: float = BYTES_TOLERANCE,
) -> Plan:
    """Balance replicas over the brokers, with these goals in order of priority: partitions span as many racks as
    possible; replica counts of brokers differ by at most one; the bytes of each broker are within the tolerance of the
    mean, as far as exchanges of replicas can achieve it; counts of preferred leaders differ by at most one, as far as
    the replicas allow it.

    `balance` leaves replicas on brokers outside `brokers` where they are; `drain` moves them.
    """
    layout = _Layout(partitions, brokers)
    if len(layout.brokers) > 1:
        _span_racks(layout)
        _even_replicas(layout)
        _even_bytes(layout, bytes_tolerance)
        _even_leaders(layout)
    return layout.plan()


Key = tuple[str, int]


class _Layout:
    """The replicas of all partitions in an unfinished plan."""

    def __init__(self, partitions: Iterable[PlanPartition], brokers: Iterable[PlanBroker]) -> None:
        known = sorted(partitions, key=lambda one: (one.topic, one.partition))
        self.partitions: dict[Key, PlanPartition] = {
            (partition.topic, partition.partition): partition for partition in known
        }
        self.order: dict[Key, tuple[int, ...]] = {key: partition.replicas for key, partition in self.partitions.items()}
        self.replicas: dict[Key, set[int]] = {
            key: set(partition.replicas) for key, partition in self.partitions.items()
        }
        racks = {broker.broker_id: broker.rack for broker in brokers}
        self.brokers: list[int] = sorted(racks)
        self.rack: dict[int, str] = {broker: rack for broker, rack in racks.items() if rack is not None}
        if len(self.rack) < len(self.brokers):
            self.rack = {}
        self.on: dict[int, set[Key]] = {broker: set() for broker in self.brokers}
        self.bytes: Counter[int] = Counter(dict.fromkeys(self.brokers, 0))
        self.of_topic: Counter[tuple[int, str]] = Counter()
        for key, found in self.order.items():
            for broker in found:
                self._count(key, broker, 1)

    def _count(self, key: Key, broker: int, sign: int) -> None:
        if broker not in self.on:
            return
        (self.on[broker].add if sign > 0 else self.on[broker].discard)(key)
        self.bytes[broker] += sign * self.partitions[key].size_bytes
        self.of_topic[broker, key[0]] += sign

    def replace(self, key: Key, old: int, new: int) -> None:
        """Replace a replica by another replica in the same position of the replica list."""
        self.order[key] = tuple(new if broker == old else broker for broker in self.order[key])
        self._moved(key, old, new)

    def add(self, key: Key, new: int) -> None:
        """Append a replica to the replica list."""
        self.order[key] += (new,)
        self._moved(key, None, new)

    def remove(self, key: Key, old: int) -> None:
        self.order[key] = tuple(broker for broker in self.order[key] if broker != old)
        self._moved(key, old, None)

    def lead(self, key: Key, leader: int) -> None:
        """Make a replica the preferred leader, by swapping its position with the current preferred leader."""
        order = list(self.order[key])
        at = order.index(leader)
        order[0], order[at] = order[at], order[0]
        self.order[key] = tuple(order)

    def _moved(self, key: Key, old: int | None, new: int | None) -> None:
        if old is not None:
            self.replicas[key].discard(old)
            self._count(key, old, -1)
        if new is not None:
            self.replicas[key].add(new)
            self._count(key, new, 1)

    def spread(self, key: Key, without: int | None = None, plus: int | None = None) -> int:
        """Return the number of racks that a partition spans; 0 if racks are not considered."""
        members = self.replicas[key] - {without} if without is not None else self.replicas[key]
        racks = {self.rack[broker] for broker in members if broker in self.rack}
        if plus is not None and plus in self.rack:
            racks.add(self.rack[plus])
        return len(racks)

    def target(self, key: Key, old: int | None) -> int:
        """Return the best broker for a new replica. The new replica replaces the replica on `old`; if `old` is None, it
        is an additional replica. Raises PlanError if no broker is left.
        """
        free = [broker for broker in self.brokers if broker not in self.replicas[key]]
        if not free:
            raise PlanError(
                f"partition {key[0]}-{key[1]} needs a broker without a replica of it, but only "
                f"{len(self.brokers)} brokers are left"
            )
        return min(
            free,
            key=lambda broker: (
                -self.spread(key, old, broker),
                self.bytes[broker],
                len(self.on[broker]),
                self.of_topic[broker, key[0]],
                broker,
            ),
        )

    def may_move(self, key: Key, old: int, new: int) -> bool:
        """Return whether a replica can move between two brokers without losing a rack."""
        return new not in self.replicas[key] and self.spread(key, old, new) >= self.spread(key)

    def plan(self) -> Plan:
        return tuple(
            Move(key[0], key[1], partition.replicas, self.order[key], partition.size_bytes)
            for key, partition in self.partitions.items()
            if self.order[key] != partition.replicas
        )


def _span_racks(layout: _Layout) -> None:
    racks = len(set(layout.rack.values()))
    for key, partition in layout.partitions.items():
        while layout.spread(key) < min(len(partition.replicas), racks):
            doubled = Counter(layout.rack.get(broker) for broker in layout.order[key])
            # Remove the last replica in a rack that has several replicas. The preferred leader is the first replica,
            # and then stays as long as possible.
            movable = [b for b in layout.order[key] if b in layout.rack and doubled[layout.rack[b]] > 1]
            if not movable:
                break
            old = movable[-1]
            new = layout.target(key, old)
            if layout.spread(key, old, new) <= layout.spread(key):
                break
            layout.replace(key, old, new)


def _even_replicas(layout: _Layout) -> None:
    """Move replicas from the most loaded to the least loaded broker, until their counts differ by less than two or no
    replica can move."""
    while _move_one(layout):
        pass


def _move_one(layout: _Layout) -> bool:
    count = {broker: len(layout.on[broker]) for broker in layout.brokers}
    fewest_first = sorted(layout.brokers, key=lambda broker: (count[broker], layout.bytes[broker], broker))
    for source in reversed(fewest_first):
        for target in fewest_first:
            if count[source] - count[target] < 2:
                break
            key = _fitting(layout, source, target)
            if key is not None:
                layout.replace(key, source, target)
                return True
    return False


def _fitting(layout: _Layout, source: int, target: int) -> Key | None:
    """Return a replica to move. Prefer a topic with more replicas on the source than on the target. Then prefer a
    replica whose move also balances the bytes, which saves a second move."""
    surplus = (len(layout.on[source]) - len(layout.on[target])) / 2
    ideal = max(0.0, (layout.bytes[source] - layout.bytes[target]) / 2 / surplus)
    best: tuple[bool, float, Key] | None = None
    for key in layout.on[source]:
        if layout.may_move(key, source, target):
            crowded = layout.of_topic[source, key[0]] > layout.of_topic[target, key[0]]
            found = (not crowded, abs(layout.partitions[key].size_bytes - ideal), key)
            if best is None or found < best:
                best = found
    return None if best is None else best[2]


def _even_bytes(layout: _Layout, tolerance: float) -> None:
    """Exchange a large replica of the broker with the most bytes for a small replica of the broker with the fewest. The
    replica counts do not change.
    """
    mean = sum(layout.bytes.values()) / len(layout.brokers)
    for _ in range(len(layout.partitions)):
        lightest_first = sorted(layout.brokers, key=lambda broker: (layout.bytes[broker], broker))
        light, heavy = lightest_first[0], lightest_first[-1]
        if layout.bytes[heavy] <= mean * (1 + tolerance) and layout.bytes[light] >= mean * (1 - tolerance):
            return
        pairs = [(heavy, other) for other in lightest_first[:-1]]
        pairs += [(other, light) for other in reversed(lightest_first[1:-1])]
        if not any(_exchange(layout, pair, other) for pair, other in pairs):
            return


def _exchange(layout: _Layout, heavy: int, light: int) -> bool:
    """Reduce the difference of two brokers as far as a single exchange can. If the replica counts permit, move one
    replica instead. Return False if no exchange helps."""
    gap = layout.bytes[heavy] - layout.bytes[light]

    def size(key: Key) -> int:
        return layout.partitions[key].size_bytes

    down = [key for key in layout.on[heavy] if layout.may_move(key, heavy, light)]
    back = [key for key in layout.on[light] if layout.may_move(key, light, heavy)]
    # Moving the smallest replica back copies the fewest bytes.
    small = min(back, key=lambda key: (size(key), key), default=None)
    partners = [None] if len(layout.on[heavy]) > len(layout.on[light]) else []
    best: tuple[int, int, Key, Key | None] | None = None
    for large in sorted(down):
        for partner in [*partners, *([] if small is None else [small])]:
            moved = size(large) - (0 if partner is None else size(partner))
            found = (abs(gap - 2 * moved), size(large), large, partner)
            if 0 < moved < gap and (best is None or found[:2] < best[:2]):
                best = found
    if best is None:
        return False
    layout.replace(best[2], heavy, light)
    if best[3] is not None:
        layout.replace(best[3], light, heavy)
    return True


def _even_leaders(layout: _Layout) -> None:
    """Move preferred leadership along a chain of partitions, from the broker with the most preferred leaders to a
    broker with at least two fewer. No data moves."""
    led: dict[int, set[Key]] = {broker: set() for broker in layout.brokers}
    for key, order in layout.order.items():
        if order and order[0] in led:
            led[order[0]].add(key)
    while True:
        chain = next(
            (
                found
                for source in sorted(layout.brokers, key=lambda broker: (-len(led[broker]), broker))
                if (found := _chain(layout, led, source)) is not None
            ),
            None,
        )
        if chain is None:
            return
        for key, leader in chain:
            led[layout.order[key][0]].discard(key)
            layout.lead(key, leader)
            led[leader].add(key)


def _chain(layout: _Layout, led: Mapping[int, set[Key]], source: int) -> list[tuple[Key, int]] | None:
    """Return the shortest chain from a broker to a broker with at least two fewer preferred leaders. Each step of the
    chain makes another replica of a partition its preferred leader.
    """
    came: dict[int, tuple[int, Key]] = {}
    waiting = deque([source])
    while waiting:
        broker = waiting.popleft()
        for key in sorted(led[broker]):
            for other in layout.order[key][1:]:
                if other == source or other in came or other not in led:
                    continue
                came[other] = (broker, key)
                if len(led[source]) - len(led[other]) > 1:
                    return _way(came, source, other)
                waiting.append(other)
    return None


def _way(came: Mapping[int, tuple[int, Key]], source: int, end: int) -> list[tuple[Key, int]]:
    steps = []
    at = end
    while at != source:
        before, key = came[at]
        steps.append((key, at))
        at = before
    return steps
