"""Invariants of a share group's membership (KIP-932) after any sequence of joins, heartbeats, lost responses,
departures, silent members, changing topics and subscriptions, failed and late writes, failures of the share states'
storage, and deaths of the broker:

- Epochs never decrease.
- A member that has lost one response is not fenced.
- A member gets no partition to which it does not subscribe, or that has no share state.
- Every partition of a topic with a subscriber has a reader, and every subscriber reads a partition.
- The stored state equals the group's state.
- Without further changes every member has its target assignment, and no share state of deleted topics or groups is
  left.

The machine drives the real groups of a shard, on a clock, a log and share states that it controls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.group_base.epoch_group import JOINS, LEAVES
from pybroker.broker.coordinators.group_base.epoch_groups import EpochGroups
from pybroker.broker.coordinators.group_base.group_registry import GroupKind, GroupRegistry
from pybroker.broker.coordinators.shards.interfaces import Record
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.broker.coordinators.share import records
from pybroker.broker.coordinators.share.group import Partition, ShareGroup, ShareGroupMember
from pybroker.broker.coordinators.share.membership import ShareHeartbeat, ShareHeartbeatResult
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.share.share_group_states import RETRY_MS, ShareGroupDependencies
from pybroker.broker.coordinators.share.share_kind import ShareKind
from pybroker.broker.coordinators.share_state.state import Key, ShareState
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

G = "g"
NAMES = ["aa", "ab", "b"]
IDS = [f"m{number}" for number in range(5)]
SUBSCRIPTIONS = [("aa",), ("aa", "b"), ("ab", "b"), ("b",), ("none",)]
SIZE_MAX = 4
SESSION_MS, INTERVAL_MS = 10_000, 4_000
STEP_MS = 500


class View:
    """Topics that are created, grow and are deleted."""

    def __init__(self) -> None:
        self.version = 0
        self.topics: dict[str, tuple[Uuid, int]] = {}

    def names(self) -> Iterable[str]:
        return self.topics

    def topic_id(self, name: str) -> Uuid | None:
        return self.topics[name][0] if name in self.topics else None

    def is_dead(self, topic_id: Uuid) -> bool:
        return all(topic_id != known for known, _ in self.topics.values())

    def topic_name(self, topic_id: Uuid) -> str | None:
        return next((name for name, (known, _) in self.topics.items() if known == topic_id), None)

    def successor(self, topic_id: Uuid) -> Uuid | None:
        return None

    def start_offset(self, topic_id: Uuid, partition: int) -> int:
        return 0

    def partition_count(self, topic_id: Uuid) -> int:
        return next((count for known, count in self.topics.values() if known == topic_id), 0)

    def partitions(self, names: Iterable[str]) -> set[Partition]:
        """The fences of existing topics."""
        found = (self.topics[name] for name in names if name in self.topics)
        return {(topic_id, index) for topic_id, count in found for index in range(count)}


class States:
    """Storage of share states, which outlives the broker. A request can fail or be done late."""

    def __init__(self) -> None:
        self.epochs: dict[Key, int] = {}
        self.slow = False
        self.late: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        await self._asked(partial(self._initialize, key, state_epoch))

    async def delete(self, key: Key) -> None:
        await self._asked(lambda: self.epochs.pop(key, None) and None)

    async def summary(self, key: Key) -> ShareState | None:
        return ShareState(self.epochs[key]) if key in self.epochs else None

    def _initialize(self, key: Key, state_epoch: int) -> None:
        if state_epoch < self.epochs.get(key, 0):
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        self.epochs[key] = state_epoch

    async def _asked(self, work: Callable[[], None]) -> None:
        if not self.slow:
            work()
            return
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.late.append((work, answer))
        await answer

    def catch_up(self, works: bool) -> None:
        """Do or refuse each requested operation. The caller may be dead by now."""
        late, self.late = self.late, []
        for work, answer in late:
            problem: KafkaError | None = None if works else KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if works:
                try:
                    work()
                except KafkaError as fenced:
                    problem = fenced
            if answer.done():
                continue
            if problem is None:
                answer.set_result(None)
            else:
                answer.set_exception(problem)


@dataclass(eq=False)
class Client:
    """A member as its own process sees it."""

    topics: tuple[str, ...]
    said: tuple[str, ...] = ()
    """Topics in its last full heartbeat."""
    epoch: int = JOINS
    reads: frozenset[Partition] = frozenset()
    full: bool = True
    waits: bool = False
    """The future of the response to its heartbeat."""


@dataclass
class Disk:
    """The shard's log, and writes that have not ended."""

    log: dict[bytes, bytes | None] = field(default_factory=dict)
    pending: list[tuple[list[Record], Callable[[ErrorCode], None]]] = field(default_factory=list)
    slow: bool = False
    torn: bool = False
    """Whether a failed write may be in the log."""

    def write(self, written: list[Record], done: Callable[[ErrorCode], None]) -> None:
        if self.slow:
            self.pending.append((written, done))
        else:
            self.put(written)
            done(ErrorCode.NONE)

    def put(self, written: list[Record]) -> None:
        for key, value in written:
            assert key is not None
            if value is None:
                self.log.pop(key, None)
            else:
                self.log[key] = value
        self.torn = False

    def read(self) -> records.StoredShareGroup:
        stored = records.StoredShareGroup()
        for key, value in self.log.items():
            kind = int.from_bytes(key[:2], "big")
            _, name = records.TYPES.decode_key(kind, key[2:])
            stored.take(kind, name, value)
        return stored


class Machine(RuleBasedStateMachine):
    """One group and its clients."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.view = View()
        self.states = States()
        self.disk = Disk()
        self.config = {
            "group.share.session.timeout.ms": SESSION_MS,
            "group.share.heartbeat.interval.ms": 1_000,
            "group.share.assignment.interval.ms": 0,
            "group.share.max.size": SIZE_MAX,
        }
        for what in ("session.timeout", "heartbeat.interval", "assignment.interval"):
            self.config |= {f"group.share.min.{what}.ms": 0, f"group.share.max.{what}.ms": 60_000}
        self.clients: dict[str, Client] = {}
        self.epochs: dict[str, list[int]] = {}
        """Epochs of each member since it joined."""
        self.highest = 0, 0
        """Epoch and target epoch of the group, when they were last seen."""
        self.groups = self.start()

    def start(self) -> EpochGroups:
        self.wheel = TimerWheel(self.clock)
        dependencies = ShareGroupDependencies(
            self.clock, self.loop, self.wheel, self.view, ShareSettings(self.config, lambda _: {}), self.states
        )
        kind = ShareKind(dependencies)
        groups = EpochGroups(
            [kind],
            GroupRegistry(),
            self.disk.write,
            replaces=lambda group: None,
            clock=self.clock,
            timers=self.wheel,
            view=self.view,
        )
        self.work = kind.states
        return groups

    def teardown(self) -> None:
        self.clients.clear()
        self.groups.forget_all(ErrorCode.NOT_COORDINATOR)
        self.end_tasks()
        self.loop.close()

    def end_tasks(self) -> None:
        """Kill the process together with its pending work."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(_ended(tasks))

    @property
    def group(self) -> ShareGroup | None:
        return self.groups.registry.get_as(G, ShareGroup)

    def run_due(self) -> None:
        """Let everything happen that is due on the loop."""

        async def rest() -> None:
            for _ in range(12):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rest())

    # --- clients ------------------------------------------------------------------------------------------------------

    def beat(self, member_id: str, *, answered: bool = True) -> None:
        client = self.clients[member_id]
        if client.waits:
            return
        client.waits = True
        if client.full:
            client.said = client.topics
        beat = ShareHeartbeat(member_id, client.epoch, "client", "/host", topics=client.topics if client.full else None)
        hear = partial(self.hear if answered else self.miss, member_id, client, beat)
        self.groups.heartbeat(GroupKind.SHARE, G, beat, hear)

    def miss(self, member_id: str, client: Client, beat: ShareHeartbeat, answer: ShareHeartbeatResult) -> None:
        """The client does not know which of its fields arrived, so it sends all fields again."""
        client.waits, client.full = False, True
        self.note_epochs()

    def hear(self, member_id: str, client: Client, beat: ShareHeartbeat, answer: ShareHeartbeatResult) -> None:
        client.waits = False
        self.note_epochs()
        if self.clients.get(member_id) is not client:
            return
        if answer.error is ErrorCode.NONE:
            assert answer.epoch >= max(client.epoch, 1)
            client.epoch = answer.epoch
            if beat.topics is not None:
                assert answer.assigned is not None, "who says everything is told everything"
                client.full = beat.topics != client.topics
            if answer.assigned is not None:
                client.reads = answer.assigned
                assert client.reads & self.live <= self.view.partitions(client.said), "not asked for"
                for partition in answer.assigned:
                    assert Key(G, *partition) in self.states.epochs or partition not in self.live, "without a state"
        elif answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            if answer.error is ErrorCode.FENCED_MEMBER_EPOCH:
                been = self.epochs[member_id]
                assert client.epoch not in been[-2:], "one answer may be lost"
            # The client releases all partitions and joins again.
            self.clients[member_id] = Client(client.topics)
        elif answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED:
            assert client.epoch == JOINS
            del self.clients[member_id]
        else:
            # The disk has failed: the client retries.
            assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER, answer
            client.full = True

    def note_epochs(self) -> None:
        group = self.group
        members = {} if group is None else group.members
        for member_id in self.epochs.keys() - members.keys():
            del self.epochs[member_id]
        for member_id, member in members.items():
            been = self.epochs.setdefault(member_id, [])
            if not been or been[-1] != member.epoch:
                assert not been or been[-1] < member.epoch, "epochs do not go back"
                been.append(member.epoch)

    @property
    def live(self) -> set[Partition]:
        """Return the partitions of topics that exist."""
        return self.view.partitions(self.view.topics)

    @initialize(interval_ms=st.sampled_from([0, INTERVAL_MS]))
    def two_share(self, interval_ms: int) -> None:
        self.change_topic("aa", 4)
        for member_id in IDS[:2]:
            self.join(member_id, SUBSCRIPTIONS[0])
        self.time_passes(2, set(IDS))
        self.set_interval(interval_ms)

    # --- steps --------------------------------------------------------------------------------------------------------

    @rule(member_id=st.sampled_from(IDS), subscription=st.sampled_from(SUBSCRIPTIONS))
    def join(self, member_id: str, subscription: tuple[str, ...]) -> None:
        """Start a process, perhaps with the id of an earlier member."""
        self.clients[member_id] = Client(subscription)
        self.beat(member_id)

    @rule(member_id=st.sampled_from(IDS), answered=st.booleans(), times=st.integers(1, 3))
    def heartbeat(self, member_id: str, answered: bool, times: int) -> None:
        for _ in range(times):
            if member_id in self.clients:
                self.beat(member_id, answered=answered)

    @rule(member_id=st.sampled_from(IDS), subscription=st.sampled_from(SUBSCRIPTIONS), answered=st.booleans())
    def change_subscription(self, member_id: str, subscription: tuple[str, ...], answered: bool) -> None:
        if member_id in self.clients:
            self.clients[member_id].topics = subscription
            self.clients[member_id].full = True
            self.beat(member_id, answered=answered)

    @rule(member_id=st.sampled_from(IDS), comes_back=st.booleans())
    def leave(self, member_id: str, comes_back: bool) -> None:
        client = self.clients.pop(member_id, None)
        if client is None:
            return
        answers: list[ShareHeartbeatResult] = []
        self.groups.heartbeat(GroupKind.SHARE, G, ShareHeartbeat(member_id, LEAVES, "client", "/host"), answers.append)
        assert all(answer.error in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID) for answer in answers)
        if comes_back:
            self.join(member_id, client.topics)

    @rule(member_id=st.sampled_from(IDS))
    def vanish(self, member_id: str) -> None:
        """The member sends nothing more, and its session expires later."""
        self.clients.pop(member_id, None)

    @rule(steps=st.integers(1, 2 * SESSION_MS // STEP_MS), alive=st.sets(st.sampled_from(IDS)))
    def time_passes(self, steps: int, alive: set[str]) -> None:
        for _ in range(steps):
            self.clock.advance(STEP_MS)
            self.wheel.advance()
            self.run_due()
            for member_id in sorted(alive):
                if member_id in self.clients:
                    self.beat(member_id)

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(0, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        self.view.version += 1
        known = self.view.topics.get(name)
        if known is not None and known[1] < partitions:
            self.view.topics[name] = known[0], partitions
            return
        if partitions:
            self.view.topics[name] = Uuid(1, self.view.version), partitions
        else:
            self.view.topics.pop(name, None)
        if known is not None:
            self.work.delete_states_of_dead_topics()

    @rule(interval_ms=st.sampled_from([0, INTERVAL_MS]))
    def set_interval(self, interval_ms: int) -> None:
        self.config["group.share.assignment.interval.ms"] = interval_ms

    @rule()
    def write_slowly(self) -> None:
        self.disk.slow = True

    @precondition(lambda self: self.disk.slow)
    @rule(works=st.booleans(), lies_there=st.booleans(), fast=st.booleans())
    def end_writes(self, works: bool, lies_there: bool, fast: bool) -> None:
        self.disk.slow = not fast
        pending, self.disk.pending = self.disk.pending, []
        for written, done in pending:
            if works or lies_there:
                self.disk.put(written)
            self.disk.torn = not works
            done(ErrorCode.NONE if works else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @rule()
    def keep_states_slowly(self) -> None:
        self.states.slow = True

    @precondition(lambda self: self.states.slow)
    @rule(works=st.booleans(), fast=st.booleans())
    def answer_for_states(self, works: bool, fast: bool) -> None:
        self.states.slow = not fast
        self.states.catch_up(works)

    @precondition(lambda self: not self.disk.slow)
    @rule(name=st.sampled_from(NAMES), partitions=st.integers(0, 5), times=st.integers(1, 2))
    def refuse_for_states(self, name: str, partitions: int, times: int) -> None:
        """A topic changes while the storage of states is unavailable. The coordinator retries without a heartbeat."""
        self.states.slow = True
        self.change_topic(name, partitions)
        self.time_passes(2, set(self.clients))
        for _ in range(times):
            self.states.catch_up(works=False)
            self.run_due()
            self.time_passes(RETRY_MS // STEP_MS + 1, set())
            group = self.group
            if group is not None and (group.initializing or group.deleting):
                assert self.states.late, "nobody asks again"

    @rule(lie_there=st.booleans(), states_work=st.booleans())
    def die(self, lie_there: bool, states_work: bool) -> None:
        """Kill the broker; the next one reads the log. All requests of clients are lost."""
        for written, _ in self.disk.pending:
            if lie_there:
                self.disk.put(written)
        self.disk.pending.clear()
        self.disk.torn = False
        dead = self.groups
        for client in self.clients.values():
            if client.waits:
                client.waits, client.full = False, True
        orphans, self.clients = self.clients, {}
        dead.forget_all(ErrorCode.NOT_COORDINATOR)
        self.end_tasks()
        self.states.catch_up(states_work)
        self.clients = {one: Client(c.topics, c.said, c.epoch, c.reads, c.full) for one, c in orphans.items()}
        self.groups = self.start()
        if (stored := self.disk.read().group(G)) is not None:
            self.groups.load(stored)
        self.work.delete_states_of_dead_topics()
        self.note_epochs()

    @precondition(lambda self: self.group is not None and not self.group.members)
    @rule(member_id=st.sampled_from(IDS), subscription=st.sampled_from(SUBSCRIPTIONS))
    def delete_states_as_one_joins(self, member_id: str, subscription: tuple[str, ...]) -> None:
        group = self.group
        assert group is not None
        self.states.slow = True
        deletion = self.loop.create_task(
            self.work.delete_states(G, group.initialized.keys() | group.initializing.keys())
        )
        deletion.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.run_due()
        self.join(member_id, subscription)

    @precondition(lambda self: self.group is not None and not self.group.members and self.groups.is_quiet(G))
    @rule()
    def delete(self) -> None:
        """Delete the group like DeleteGroups: its share states first."""
        group = self.group
        assert group is not None
        if self.states.slow or self.disk.slow:
            return
        self.run_due()
        self.loop.run_until_complete(self.work.delete_states(G, group.initialized.keys() | group.initializing.keys()))
        group = self.group
        assert group is not None
        assert not self.states.epochs
        self.disk.put(list(self.groups.drop(group).items()))
        assert self.disk.read().group(G) is None
        assert not self.disk.log
        self.highest = 0, 0
        self.epochs.clear()

    @rule()
    def settle(self) -> None:
        self.set_interval(0)
        for _ in range(2):
            self.end_writes(works=True, lies_there=True, fast=True)
            self.answer_for_states(works=True, fast=True)
            self.run_due()
        for client in self.clients.values():
            client.full = True
        # Silent members are removed after their session, and the others have sent enough heartbeats.
        self.time_passes(SESSION_MS // STEP_MS + 4, set(self.clients))
        self.time_passes(4, set(self.clients))
        self.everybody_has_the_target()

    def everybody_has_the_target(self) -> None:
        group = self.group
        if group is None:
            assert not self.clients
            return
        assert group.members.keys() == self.clients.keys()
        assert group.state.value == ("Stable" if self.clients else "Empty")
        assert not group.initializing
        for member_id, client in self.clients.items():
            member = group.members[member_id]
            assert client.epoch == member.epoch == group.epoch == group.target_epoch
            assert client.reads == member.assigned == group.target[member_id]
            assert client.reads <= self.view.partitions(client.topics)
            assert bool(client.reads) == bool(self.view.partitions(client.topics)), "nobody is idle"
        wanted = self.view.partitions(name for client in self.clients.values() for name in client.topics)
        assert {partition for client in self.clients.values() for partition in client.reads} == wanted
        of_the_dead = {(key.topic_id, key.partition) for key in self.states.epochs} - self.live
        assert not of_the_dead
        assert wanted <= {(key.topic_id, key.partition) for key in self.states.epochs}
        wishes = {client.topics for client in self.clients.values()}
        if len(wishes) == 1 and wanted:
            has = [len(client.reads) for client in self.clients.values()]
            readers = Counter(partition for client in self.clients.values() for partition in client.reads)
            assert max(has) - min(has) <= 1
            assert max(readers.values()) - min(readers.values()) <= 1

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.group
        if group is None:
            return
        assert self.highest[0] <= group.epoch
        assert self.highest[1] <= group.target_epoch
        self.highest = group.epoch, group.target_epoch
        assert group.target_epoch <= group.epoch
        for member in group.members.values():
            assert member.previous_epoch <= member.epoch <= group.target_epoch
            assert member.epoch > 0

    @invariant()
    def what_is_stored_is_the_group(self) -> None:
        if self.disk.torn or self.disk.pending:
            return
        stored, group = self.disk.read().group(G), self.group
        if group is None or stored is None:
            assert group is stored is None
            return
        # The log does not contain these fields.
        stored.looked_at, stored.identity = group.looked_at, group.identity
        assert structs.asdict(stored) == structs.asdict(group)

    @invariant()
    def targets_are_whole(self) -> None:
        """Check the target assignments of the members."""
        group = self.group
        if group is None:
            return
        assert group.target.keys() <= group.members.keys()
        for partition in {one for target in group.target.values() for one in target}:
            assert group.has_state(partition) or partition not in self.live
        if group.epoch > group.target_epoch or group.looked_at != self.view.version:
            return
        wanted: set[Partition] = set()
        for member in group.members.values():
            may = {one for one in self.view.partitions(member.topics) if group.has_state(one)}
            wanted |= may
            assert group.target[member.member_id] <= may
            assert bool(group.target[member.member_id]) == bool(may)
        assert {one for target in group.target.values() for one in target} == wanted

    @invariant()
    def states_that_are_there_are_kept(self) -> None:
        group = self.group
        for topic_id, topic in ({} if group is None else group.initialized).items():
            for index in topic.partitions:
                is_there = Key(G, topic_id, index) in self.states.epochs or topic_id in group.deleting
                assert is_there or (topic_id, index) not in self.live


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


TestMachine = Machine.TestCase

TestMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_second_answer_within_an_epoch_may_be_lost_as_well() -> None:
    before = ShareGroupMember("m", "client", "/host", epoch=3, previous_epoch=2)
    partition = Uuid.random(), 0
    assert before.moved_to(3, frozenset([partition])).previous_epoch == 2
    assert before.moved_to(4, frozenset([partition])).previous_epoch == 3
