"""Which replicas to move so that a broker becomes empty (`drain`), brokers are equally loaded (`balance`), or topics
have more replicas (`replicate`). Pure: from a description of the cluster to the moves, which a reassignment carries
out.

What is planned moves as few bytes as it can. A move never lessens the number of racks that a partition spans, and goes
to another rack where that gives it one more. Racks count when every broker has one, as in the placement of new topics.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

import msgspec

BYTES_TOLERANCE = 0.1
"""How far from the mean a broker's bytes may be before `balance` moves partitions for it: moving costs more than it
brings where the difference is small."""


class PlanError(ValueError):
    """What was asked for cannot be planned. Says why."""


class PlanBroker(msgspec.Struct, frozen=True):
    """A broker that may hold replicas."""

    broker_id: int
    rack: str | None = None


class PlanPartition(msgspec.Struct, frozen=True):
    """A partition as it is: of one that is being reassigned, what it will be."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """The preferred leader first."""
    size_bytes: int = 0
    """Of one replica."""


class Move(msgspec.Struct, frozen=True):
    """A partition to be reassigned."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def moved_bytes(self) -> int:
        """What has to be copied; 0 where only the preferred leader changes."""
        return self.size_bytes * len(self.adding)


Plan = tuple[Move, ...]
"""In the order of topics and partitions; each partition once."""


def drain(partitions: Iterable[PlanPartition], brokers: Iterable[PlanBroker], leaving: Collection[int]) -> Plan:
    """Takes every replica from the brokers that are leaving; each goes to the broker that holds least, in its place in
    the order. `brokers` are those that live, the leaving ones may be among them or not.

    Raises PlanError: too few brokers are left for a partition's replicas.
    """
    layout = _Layout(partitions, [broker for broker in brokers if broker.broker_id not in leaving])
    concerned = [one for one in layout.partitions if not layout.replicas[one].isdisjoint(leaving)]
    # Large ones first: small ones then even out what is left.
    for one in sorted(concerned, key=lambda one: -layout.partitions[one].size_bytes):
        for old in layout.order[one]:
            if old in leaving:
                layout.replace(one, old, layout.target(one, old))
    return layout.plan()


def replicate(
    partitions: Iterable[PlanPartition], brokers: Iterable[PlanBroker], factors: Mapping[str, int]
) -> Plan:
    """Brings topics to a number of replicas: new ones go where least is; of too many the last ones in the order go.

    Raises PlanError: fewer brokers live than replicas are asked for, or a factor below 1.
    """
    layout = _Layout(partitions, brokers)
    for one, partition in layout.partitions.items():
        factor = factors.get(partition.topic)
        if factor is None:
            continue
        if factor < 1:
            raise PlanError(f"topic '{partition.topic}' cannot have {factor} replicas")
        while len(layout.order[one]) < factor:
            layout.add(one, layout.target(one, None))
        for surplus in layout.order[one][factor:]:
            layout.remove(one, surplus)
    return layout.plan()


def balance(
    partitions: Iterable[PlanPartition],
    brokers: Iterable[PlanBroker],
    *,
    bytes_tolerance: float = BYTES_TOLERANCE,
) -> Plan:
    """Spreads what is on the brokers over them, in this order: partitions span as many racks as they can; the brokers'
    numbers of replicas differ by one at most; their bytes are within the tolerance of the mean, as far as exchanging
    replicas brings that; their numbers of preferred leaders differ by one at most where the replicas allow it.

    Replicas on brokers that are not in `brokers` stay where they are: `drain` moves those.
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
    """Where everything is while a plan is made."""

    def __init__(self, partitions: Iterable[PlanPartition], brokers: Iterable[PlanBroker]) -> None:
        known = sorted(partitions, key=lambda one: (one.topic, one.partition))
        self.partitions: dict[Key, PlanPartition] = {(one.topic, one.partition): one for one in known}
        self.order: dict[Key, tuple[int, ...]] = {key: one.replicas for key, one in self.partitions.items()}
        self.replicas: dict[Key, set[int]] = {key: set(one.replicas) for key, one in self.partitions.items()}
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
        """In its place in the order."""
        self.order[key] = tuple(new if broker == old else broker for broker in self.order[key])
        self._moved(key, old, new)

    def add(self, key: Key, new: int) -> None:
        """At the end of the order."""
        self.order[key] += (new,)
        self._moved(key, None, new)

    def remove(self, key: Key, old: int) -> None:
        self.order[key] = tuple(broker for broker in self.order[key] if broker != old)
        self._moved(key, old, None)

    def lead(self, key: Key, leader: int) -> None:
        """Makes a replica the preferred leader; the one that was takes its place."""
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
        """How many racks a partition spans; 0 where racks do not count."""
        members = self.replicas[key] - {without} if without is not None else self.replicas[key]
        racks = {self.rack[broker] for broker in members if broker in self.rack}
        if plus is not None and plus in self.rack:
            racks.add(self.rack[plus])
        return len(racks)

    def target(self, key: Key, old: int | None) -> int:
        """The best broker for a new replica, instead of `old` if given. Raises PlanError."""
        free = [broker for broker in self.brokers if broker not in self.replicas[key]]
        if not free:
            raise PlanError(
                f"partition {key[0]}-{key[1]} needs a broker that has no replica of it, and only "
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
        """Whether a replica can go from one broker to another without losing a rack."""
        return new not in self.replicas[key] and self.spread(key, old, new) >= self.spread(key)

    def plan(self) -> Plan:
        return tuple(
            Move(key[0], key[1], one.replicas, self.order[key], one.size_bytes)
            for key, one in self.partitions.items()
            if self.order[key] != one.replicas
        )


def _span_racks(layout: _Layout) -> None:
    racks = len(set(layout.rack.values()))
    for key, one in layout.partitions.items():
        while layout.spread(key) < min(len(one.replicas), racks):
            doubled = Counter(layout.rack.get(broker) for broker in layout.order[key])
            # The last of a rack that has several: the preferred leader stays as long as it can.
            movable = [b for b in layout.order[key] if b in layout.rack and doubled[layout.rack[b]] > 1]
            if not movable:
                break
            old = movable[-1]
            new = layout.target(key, old)
            if layout.spread(key, old, new) <= layout.spread(key):
                break
            layout.replace(key, old, new)


def _even_replicas(layout: _Layout) -> None:
    """From who has most to who has least, until nobody has two more than another, or nothing may go."""
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
    """Of a topic that the source has more of, if there is one; then what evens out the bytes as well, so that nothing
    is moved for them once more."""
    surplus = (len(layout.on[source]) - len(layout.on[target])) / 2
    wanted = max(0.0, (layout.bytes[source] - layout.bytes[target]) / 2 / surplus)
    best: tuple[bool, float, Key] | None = None
    for key in layout.on[source]:
        if layout.may_move(key, source, target):
            crowded = layout.of_topic[source, key[0]] > layout.of_topic[target, key[0]]
            found = (not crowded, abs(layout.partitions[key].size_bytes - wanted), key)
            if best is None or found < best:
                best = found
    return None if best is None else best[2]


def _even_bytes(layout: _Layout, tolerance: float) -> None:
    """Exchanges a large replica of who holds most for a small one of who holds least: the numbers stay."""
    mean = sum(layout.bytes.values()) / len(layout.brokers)
    for _ in range(len(layout.partitions)):
        lightest_first = sorted(layout.brokers, key=lambda broker: (layout.bytes[broker], broker))
        light, heavy = lightest_first[0], lightest_first[-1]
        if layout.bytes[heavy] <= mean * (1 + tolerance) and layout.bytes[light] >= mean * (1 - tolerance):
            return
        pairs = [(heavy, other) for other in lightest_first[:-1]]
        pairs += [(other, light) for other in reversed(lightest_first[1:-1])]
        if not any(_exchange(layout, one, other) for one, other in pairs):
            return


def _exchange(layout: _Layout, heavy: int, light: int) -> bool:
    """Brings two brokers as near to each other as one exchange can; one way where their numbers allow it. False if
    nothing does."""
    gap = layout.bytes[heavy] - layout.bytes[light]

    def size(key: Key) -> int:
        return layout.partitions[key].size_bytes

    down = [key for key in layout.on[heavy] if layout.may_move(key, heavy, light)]
    back = [key for key in layout.on[light] if layout.may_move(key, light, heavy)]
    # The smallest that can come back moves least.
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
    """Hands preferred leadership along a chain of partitions from who has most to who has two less: no bytes move."""
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
    """The shortest way from a broker to one that prefers two partitions less: each step gives a partition to another
    of its replicas."""
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
