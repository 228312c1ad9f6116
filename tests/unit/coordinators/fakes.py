"""Fakes of the coordinator's dependencies: an offsets log in memory, topics, and a clock that tests advance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.group.classic_group import ClassicGroup, JoinResult
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC, GroupCoordinatorSettings
from pybroker.broker.coordinators.group_base.requests import JoinRequest, LeavingMember, SyncRequest
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.share_state.state import Key, ShareState
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.interfaces import TransactionSettings
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.native import StoredRecord, StoredRecords, Uuid

Record = tuple[bytes | None, bytes | None]
AppendCallback = Callable[[int, int], None]

CONFIG: Mapping[str, Any] = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 2**31 - 1,
    "group.max.metadata.bytes": 1 << 20,
    "group.max.metadata.bytes.total": 1 << 24,
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.rebalance.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
    **{
        f"group.consumer.{bound}.{name}": value
        for bound, value in (("min", 0), ("max", 60_000))
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    },
    "group.consumer.max.size": 100,
    "group.consumer.assignors": ("uniform", "range"),
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.regex.refresh.interval.ms": 600_000,
    "offset.metadata.max.bytes": 4_096,
    "offsets.retention.minutes": 10_080,
    "offsets.retention.check.interval.ms": 600_000,
    "offsets.load.buffer.size": 1 << 20,
    "offsets.commit.timeout.ms": 5_000,
}


@dataclass
class FakeOffsets:
    log_start_offset: int
    log_end_offset: int
    high_watermark: int


def read(found: Sequence[tuple[int, int, bytes | None, bytes | None]], next_offset: int) -> StoredRecords:
    """Return the result of a read of these records (offset, timestamp, key, value)."""
    return StoredRecords([StoredRecord(*record, -1, None, ()) for record in found], next_offset)


class FakeLog:
    """The offsets topic's partitions in memory. `hold` delays completions, `refuse` fails appends with a code.
    `at_once`: appends that are not held complete immediately, as without flushes."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[tuple[int, int, bytes | None, bytes | None]]] = {}
        self.hold = False
        self.at_once = False
        self.refuse = 0
        self.batches = 0
        self.epochs: list[int] = []
        """Leader epoch of each append, in order."""
        self._held: list[tuple[AppendCallback, int]] = []

    def append(
        self,
        topic_id: Uuid,
        partition: int,
        leader_epoch: int,
        records: Sequence[Record],
        timestamp_ms: int,
        *,
        callback: AppendCallback,
        producer: tuple[int, int] | None = None,
    ) -> tuple[int, int] | None:
        self.batches += 1
        self.epochs.append(leader_epoch)
        if self.refuse:
            return self._end(callback, self.refuse, -1)
        log = self.partitions.setdefault(partition, [])
        base = len(log)
        log.extend((base + i, timestamp_ms, key, value) for i, (key, value) in enumerate(records))
        if self.hold:
            self._held.append((callback, base))
            return None
        return self._end(callback, 0, base)

    def _end(self, callback: AppendCallback, code: int, base: int) -> tuple[int, int] | None:
        if self.at_once:
            return code, base
        asyncio.get_running_loop().call_soon(callback, code, base)
        return None

    def release(self) -> None:
        """Complete the appends that were held back."""
        held, self._held = self._held, []
        self.hold = False
        for callback, base in held:
            asyncio.get_running_loop().call_soon(callback, 0, base)

    def read_records(self, topic_id: Uuid, partition: int, offset: int, max_bytes: int) -> StoredRecords:
        found = [record for record in self.partitions.get(partition, []) if record[0] >= offset][:3]
        return read(found, found[-1][0] + 1 if found else offset)

    def offsets(self, topic_id: Uuid, partition: int) -> FakeOffsets:
        end = len(self.partitions.get(partition, []))
        return FakeOffsets(0, end, end)

    @property
    def records(self) -> list[Record]:
        return [(key, value) for log in self.partitions.values() for _, _, key, value in log]


@dataclass(frozen=True)
class Removed:
    name: str
    topic_id: Uuid


class FakeTopics:
    """Topics by name; `remove` and `create` give names to incarnations."""

    def __init__(self) -> None:
        self.changes = 0
        self.ids: dict[str, Uuid] = {}
        self.counts: dict[Uuid, int] = {}
        self.floors: dict[str, int] = {}
        self.first_epochs: dict[Uuid, int] = {}
        self.lives: dict[Uuid, tuple[str, int, int]] = {}
        """Incarnations that existed at known times: name, from, to (wall time in ms)."""
        self.since: dict[Uuid, int] = {}
        """Wall time in ms at which the current incarnations were created."""
        self.dead: set[Uuid] = set()
        """Topics that can no longer be undeleted."""
        self.successors: dict[Uuid, Uuid] = {}
        """Truncated topics whose offsets the successor continues."""
        self.start_offsets: dict[Uuid, int] = {}
        self.leaders: dict[tuple[Uuid, int], tuple[int, int]] = {}
        """Partitions whose leader is not broker 1 with epoch 0."""
        self.lives_before: dict[Uuid, list[tuple[int, int]]] = {}
        self.last_epochs: dict[Uuid, int] = {}
        self._listeners: dict[str, list[Callable[[], None]]] = {}

    @property
    def version(self) -> int:
        return self.changes

    def names(self) -> list[str]:
        return list(self.ids)

    def create(self, name: str, partitions: int = 4) -> Uuid:
        self.changes += 1
        topic_id = self.ids[name] = Uuid.random()
        self.counts[topic_id] = partitions
        self.first_epochs[topic_id] = self.floors.get(name, -1) + 1
        self._changed(name)
        return topic_id

    def undelete(self, name: str, topic_id: Uuid, partitions: int = 4) -> None:
        """Give a deleted topic its name again."""
        self.changes += 1
        first = self.first_epochs[topic_id]
        self.lives_before.setdefault(topic_id, []).append((first, self.last_epochs[topic_id]))
        self.ids[name] = topic_id
        self.counts[topic_id] = partitions
        self.first_epochs[topic_id] = self.floors[name] + 1
        self._changed(name)

    def grow(self, name: str, partitions: int) -> None:
        self.changes += 1
        self.counts[self.ids[name]] = partitions
        self._changed(name)

    def lead(self, name: str, partition: int, broker: int, epoch: int) -> None:
        """Set another leader, or another epoch of the same one."""
        self.leaders[self.ids[name], partition] = broker, epoch
        self._changed(name)

    def _changed(self, name: str) -> None:
        for listener in self._listeners.get(name, []):
            listener()

    def on_leaders_changed(self, name: str, listener: Callable[[], None]) -> None:
        self._listeners.setdefault(name, []).append(listener)

    def remove(self, name: str) -> Removed:
        topic_id = self.ids.pop(name)
        del self.counts[topic_id]
        self.floors[name] = self.last_epochs[topic_id] = self.first_epochs[topic_id]
        self._changed(name)
        return Removed(name, topic_id)

    def topic_id(self, name: str) -> Uuid | None:
        return self.ids.get(name)

    def topic_id_at(self, name: str, wall_ms: int) -> Uuid | None:
        lives = self.lives.items()
        return next((one for one, (of, made, gone) in lives if of == name and made <= wall_ms < gone), None)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return next((name for name, known in self.ids.items() if known == topic_id), None)

    def is_dead(self, topic_id: Uuid) -> bool:
        return topic_id in self.dead

    def successor(self, topic_id: Uuid) -> Uuid | None:
        return self.successors.get(topic_id)

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        return self.start_offsets.get(topic_id, 0)

    def partition_count(self, topic_id: Uuid) -> int:
        return self.counts.get(topic_id, 0)

    def owns_epoch(self, topic_id: Uuid, leader_epoch: int) -> bool:
        lives = self.lives_before.get(topic_id, ())
        return leader_epoch >= self.first_epochs[topic_id] or any(a <= leader_epoch <= b for a, b in lives)

    def _lineage(self, topic_id: Uuid) -> TopicLineage:
        return TopicLineage((), self.first_epochs[topic_id], tuple(self.lives_before.get(topic_id, ())))

    def proves(self, topic_id: Uuid, leader_epoch: int) -> bool:
        return self._lineage(topic_id).proves(leader_epoch)

    def had_name_alone(self, topic_id: Uuid) -> bool:
        return self._lineage(topic_id).had_name_alone

    def first_epoch(self, topic_id: Uuid) -> int:
        return self.first_epochs[topic_id]

    def living_since(self, topic_id: Uuid) -> int | None:
        return self.since.get(topic_id)

    def leader(self, topic_id: Uuid, partition: int) -> tuple[int, int]:
        there = partition < self.counts.get(topic_id, 0)
        return self.leaders.get((topic_id, partition), (1, 0)) if there else (-1, -1)

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        return ("localhost", 9090 + broker_id) if broker_id in (1, 2) else None

    async def ensure_internal(self, name: str) -> object:
        await asyncio.sleep(0)
        return self.create(name, 5)


class FakeStates:
    """Fake storage of share groups' states (`share.groups.States`)."""

    def __init__(self) -> None:
        self.kept: dict[Key, ShareState] = {}

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        self.kept[key] = ShareState(state_epoch, start_offset)

    async def delete(self, key: Key) -> None:
        self.kept.pop(key, None)

    async def summary(self, key: Key) -> ShareState | None:
        return self.kept.get(key)


@dataclass
class World:
    """A coordinator with all its dependencies."""

    config: dict[str, Any] = field(default_factory=lambda: dict(CONFIG))
    clock: FakeClock = field(default_factory=FakeClock)
    log: FakeLog = field(default_factory=FakeLog)
    topics: FakeTopics = field(default_factory=FakeTopics)
    states: FakeStates = field(default_factory=FakeStates)
    late_offsets: list[tuple[Uuid, Sequence[Mapping[str, Any]]]] = field(default_factory=list)
    lacking: bool = False
    """Whether deletion records lack the offsets."""
    kept: list[Callable[[bool], object]] = field(default_factory=list)
    """What to call when the deletion records have them."""
    """Offsets of deleted topics that the coordinator has reported."""
    turn: EndOfBatchHook = field(init=False)
    groups: GroupCoordinator = field(init=False)
    transactions: TransactionCoordinator = field(init=False)
    loop: asyncio.AbstractEventLoop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        if OFFSETS_TOPIC not in self.topics.ids:
            self.topics.create(OFFSETS_TOPIC, 5)
        self.start()

    def start(self) -> None:
        """Start a new broker on the same log."""
        loop = asyncio.get_running_loop()
        self.turn = EndOfBatchHook(loop)
        dependencies = CoordinatorDependencies(
            1, self.clock, loop, self.turn, self.log, self.log, self.topics, self.topics
        )
        self.groups = GroupCoordinator(dependencies, GroupCoordinatorSettings(self.config), self.states, self._keep)
        self.groups.start()
        nobody: Any = None
        self.transactions = TransactionCoordinator(
            dependencies,
            TransactionSettings(self.config),
            nobody,
            Finishing(self.topics, nobody, nobody, nobody, self.clock),
        )

    def _keep(
        self, topic_id: Uuid, offsets: Sequence[Mapping[str, Any]], kept: Callable[[bool], object]
    ) -> set[tuple[str, int]]:
        self.late_offsets.append((topic_id, offsets))
        if not self.lacking:
            return set()
        self.kept.append(kept)
        return {(offset["group"], offset["partition"]) for offset in offsets}

    async def restart(self) -> None:
        """Kill the process and start it again."""
        self.start()
        await self.groups.loaded()

    async def settle(self) -> None:
        """Let everything happen that is due on the loop."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_time(self, ms: int) -> None:
        """Advance time in small steps and run timers."""
        while ms > 0:
            step = min(ms, 1_000)
            self.clock.advance(step)
            self.groups._driver.wheel.advance()
            await self.settle()
            ms -= step

    def remove_topic(self, name: str) -> None:
        self.groups.topics_removed([self.topics.remove(name)])

    def classic(self, group_id: str) -> ClassicGroup | None:
        return self.groups.shard(group_id, empty_allowed=True).classic_group(group_id)

    # --- members ------------------------------------------------------------------------------------------------------

    async def ask_join(self, group: str, member_id: str = "", **changes: Any) -> Any:
        """Send a JoinGroup: return a JoinResult, or a future for it while the request is held."""
        return self.groups.join(group, join_request(member_id, **changes))

    async def enter(self, group: str, **changes: Any) -> tuple[str, asyncio.Future[JoinResult]]:
        """Get a member id and join with it; return the id and the pending response."""
        first = self.groups.join(group, join_request("", **changes))
        assert isinstance(first, JoinResult)
        second = self.groups.join(group, join_request(first.member_id, **changes))
        assert isinstance(second, asyncio.Future)
        return first.member_id, second

    def ask_sync(
        self, group: str, joined: JoinResult, assignments: Mapping[str, bytes] | None = None, **changes: Any
    ) -> Any:
        """Send a SyncGroup: return a SyncResult, or a future for it while the request is held."""
        fields: dict[str, Any] = {
            "member_id": joined.member_id,
            "instance_id": None,
            "generation": joined.generation,
            "protocol_type": joined.protocol_type,
            "protocol_name": joined.protocol_name,
            "assignments": tuple((assignments or {}).items()),
        }
        return self.groups.sync(group, SyncRequest(**(fields | changes)))

    async def stable(self, group: str, members: int = 1, **changes: Any) -> list[JoinResult]:
        """Return a stable group, the leader first. Each member is assigned its own id."""
        waiting = [(await self.enter(group, **changes))[1] for _ in range(members)]
        await self.pass_time(2_000)
        joined = sorted([w.result() for w in waiting], key=lambda j: j.leader != j.member_id)
        answers = [self.ask_sync(group, j, {k.member_id: k.member_id.encode() for k in joined}) for j in joined]
        await self.settle()
        for j, answer in zip(joined, answers, strict=True):
            assert (await answered(answer)).assignment == j.member_id.encode()
        return joined

    def beat(self, group: str, joined: JoinResult, instance_id: str | None = None) -> int:
        return self.groups.heartbeat(group, joined.member_id, instance_id, joined.generation)

    def leave(self, group: str, *member_ids: str) -> list[int]:
        return list(self.groups.leave(group, [LeavingMember(m, None) for m in member_ids]))


def subscription(*topics: str, tail: bytes = b"") -> bytes:
    """Return member metadata as consumers write it: version 1, without owned partitions."""
    names = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    return b"\x00\x01" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00" + tail


def join_request(member_id: str = "", **changes: Any) -> JoinRequest:
    """Return a consumer's JoinGroup of the newest version; `changes` replace fields."""
    fields: dict[str, Any] = {
        "member_id": member_id,
        "instance_id": None,
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "protocol_type": "consumer",
        "protocols": (("range", subscription("orders")),),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "requires_known_member_id": True,
        "supports_skipping_assignment": True,
    }
    return JoinRequest(**(fields | changes))


async def answered(outcome: Any) -> Any:
    """Return the value of an outcome that must have arrived."""
    if isinstance(outcome, asyncio.Future):
        assert outcome.done()
        return outcome.result()
    return outcome
