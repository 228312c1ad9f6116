"""Invariants of a streams group (KIP-1071) after any sequence of joins, heartbeats, lost responses, departures, expired
members, changing topics and settings:

- No task is active on two members at a time.
- A process has a task at most once, except for a member that changes the task's role.
- A member loses a task that is not in its target assignment.
- Without further changes every member reaches its target assignment, which gives each task to one member and its copies
  to other processes.
- The stored state equals the group's state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pybroker.broker.coordinators.group_base.epoch_group import GOES_AWAY, JOINS, LEAVES
from pybroker.broker.coordinators.streams import membership, records
from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import (
    StreamsGroupState,
    StreamsHeartbeat,
    StreamsMemberState,
    Task,
    Tasks,
)
from pybroker.broker.coordinators.streams.topology import InternalTopic, Subtopology, Topology, configure
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

IDS = [f"m{number}" for number in range(5)]
INSTANCES = {"m3": "static", "m4": "static"}
PROCESSES = {"m0": "p0", "m1": "p0", "m2": "p1", "m3": "p2", "m4": "p2"}
SIZE_MAX = 4
FATAL = (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)
"""Errors after which a client stops retrying."""

TOPOLOGY = Topology(
    0,
    (
        Subtopology("0", sources=("lines",), repartition_sinks=("words",)),
        Subtopology("1", repartition_sources=(InternalTopic("words"),), changelogs=(InternalTopic("counts"),)),
    ),
)


class World:
    """Topics that are created and deleted, settings, and a coordinator without delays."""

    def __init__(self) -> None:
        self.version = 0
        self.topics: dict[str, int] = {}
        self.standbys = 0

    def count(self, name: str) -> int:
        return self.topics.get(name, 0)


@dataclass
class Client:
    """A member as its own process sees it."""

    epoch: int = JOINS
    runs: Tasks = Tasks()  # noqa: RUF009 (immutable)
    told: Tasks = Tasks()  # noqa: RUF009 (immutable)
    """The assigned tasks; it releases the others before its next heartbeat."""
    full: bool = True


def _both(one: Tasks, other: Tasks) -> Tasks:
    return Tasks(one.active & other.active, one.standby & other.standby)


class Machine(RuleBasedStateMachine):
    """One group and its clients."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.group: StreamsGroup | None = None
        self.clients: dict[str, Client] = {}
        self.log: dict[bytes, bytes | None] = {}
        self.early = False
        """Whether the assignment interval is still running."""
        self.ahead: list[Callable[[StreamsGroup], None]] = []
        """Changes that the next batch makes first."""

    # --- the coordinator's environment --------------------------------------------------------------------------------

    def look(self, draft: StreamsGroup) -> bool:
        assert draft.topology is not None
        draft.configured = configure(draft.topology, self.world.count)
        validated = draft.topology.epoch if draft.configured.is_ready else -1
        known = self.world.version, validated, self.world.standbys
        changed = known != (draft.topics_hash, draft.validated_epoch, int(draft.assignor_settings.get("standbys", -1)))
        draft.topics_hash, draft.validated_epoch = known[:2]
        draft.assignor_settings = {"standbys": str(self.world.standbys)}
        return changed

    def turn(self, change: Callable[[StreamsGroup], None]) -> StreamsGroup:
        before = self.group
        after = StreamsGroup("g") if before is None else before.fork()
        while self.ahead:
            self.ahead.pop(0)(after)
        change(after)
        if after.topology is not None:
            self.look(after)
        if after.epoch > after.target_epoch and not (self.early and after.members):
            membership.assign(after, self.world.standbys, 1)
        return after

    def commit(self, after: StreamsGroup) -> None:
        for key, value in records.changes(self.group, after).items():
            if value is None:
                self.log.pop(key, None)
            else:
                self.log[key] = value
        self.group = after

    def beat(self, member_id: str, *, answered: bool = True, obeys: bool = True) -> None:
        client = self.clients[member_id]
        if obeys:
            client.runs = _both(client.runs, client.told)
        heartbeat = StreamsHeartbeat(
            member_id,
            client.epoch,
            "client",
            "/host",
            instance_id=INSTANCES.get(member_id),
            rebalance_timeout_ms=1000 if client.full else -1,
            topology=TOPOLOGY if client.epoch == JOINS else None,
            owned=client.runs if client.full or obeys else None,
            process_id=PROCESSES[member_id] if client.full else None,
        )

        def change(draft: StreamsGroup) -> None:
            entered = membership.enter(draft, heartbeat, SIZE_MAX)
            if self.look(draft) or entered.matters:
                draft.epoch += 1

        try:
            after = self.turn(change)
        except KafkaError as error:
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                # The client releases all tasks and joins again.
                self.clients[member_id] = Client()
            elif error.code == ErrorCode.INVALID_REQUEST:
                # The client runs tasks that no longer exist, because the topic was re-created.
                self.clients[member_id] = Client()
            elif error.code in FATAL:
                del self.clients[member_id]
            else:
                raise
            return
        member = membership.progress(after, member_id, heartbeat.owned)
        self.commit(after)
        if not answered:
            # The client does not know which of its fields arrived, so it sends all fields again.
            client.full = True
            return
        client.epoch = member.epoch
        client.told = member.assigned.tasks
        # A task that must not run twice starts when the member has closed the other task.
        client.runs = Tasks(
            client.runs.active | client.told.active,
            (client.runs.standby | client.told.standby) - client.runs.active - client.told.active,
        )
        client.full = False

    @initialize(partitions=st.integers(1, 4))
    def two_share(self, partitions: int) -> None:
        self.change_topics(partitions)
        for member_id in IDS[:2]:
            self.join(member_id)

    # --- steps --------------------------------------------------------------------------------------------------------

    @rule(member_id=st.sampled_from(IDS))
    def join(self, member_id: str) -> None:
        # A process that restarts with an old member id has released all tasks.
        self.clients[member_id] = Client()
        self.beat(member_id)

    @rule(member_id=st.sampled_from(IDS), answered=st.booleans(), times=st.integers(1, 3), obeys=st.booleans())
    def heartbeat(self, member_id: str, answered: bool, times: int, obeys: bool) -> None:
        for _ in range(times):
            if member_id in self.clients:
                self.beat(member_id, answered=answered, obeys=obeys)

    @rule(member_id=st.sampled_from(IDS), for_ever=st.booleans())
    def leave(self, member_id: str, for_ever: bool) -> None:
        if self.group is None or self.clients.pop(member_id, None) is None:
            return
        instance = INSTANCES.get(member_id)
        epoch = LEAVES if for_ever or instance is None else GOES_AWAY
        beat = StreamsHeartbeat(member_id, epoch, "client", "/host", instance_id=instance)
        try:
            after = self.turn(lambda draft: membership.leave(draft, beat))
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                raise
        else:
            self.commit(after)

    @rule(member_id=st.sampled_from(IDS))
    def leave_and_come_back(self, member_id: str) -> None:
        """Leave and come back within one write."""
        if self.group is not None and member_id in self.group.members:
            self.ahead.append(lambda draft: membership.remove(draft, member_id))
            self.join(member_id)

    @precondition(lambda self: self.group is not None and self.group.members)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        assert self.group is not None
        member_id = data.draw(st.sampled_from(sorted(self.group.members)))
        # The client itself has noticed before: its session is shorter.
        if member_id in self.clients:
            self.clients[member_id] = Client()
        self.commit(self.turn(lambda draft: membership.remove(draft, member_id)))

    @rule(partitions=st.integers(0, 4))
    def change_topics(self, partitions: int) -> None:
        self.world.version += 1
        if partitions:
            self.world.topics = dict.fromkeys(("lines", "words", "counts"), partitions)
        else:
            self.world.topics.pop("lines", None)

    @rule(standbys=st.integers(0, 2))
    def change_standbys(self, standbys: int) -> None:
        self.world.standbys = standbys

    @rule(early=st.booleans())
    def put_targets_off(self, early: bool) -> None:
        """Begin or stop to delay target assignments."""
        self.early = early
        if early or self.group is None:
            return

        def change(draft: StreamsGroup) -> None:
            if self.look(draft):
                draft.epoch += 1

        self.commit(self.turn(change))

    @precondition(lambda self: self.group is not None)
    @rule()
    def load(self) -> None:
        assert self.group is not None
        stored = records.StoredStreamsGroup()
        for key, value in self.log.items():
            kind = int.from_bytes(key[:2], "big")
            _, name = records.TYPES.decode_key(kind, key[2:])
            stored.take(kind, name, value)
        loaded = stored.group("g")
        assert loaded is not None
        assert (loaded.epoch, loaded.target_epoch) == (self.group.epoch, self.group.target_epoch)
        assert loaded.members == self.group.members
        assert {k: v for k, v in loaded.target.items() if v != Tasks()} == {
            k: v for k, v in self.group.target.items() if v != Tasks()
        }
        assert (loaded.running, loaded.copied) == (self.group.running, self.group.copied)
        assert (loaded.instances, loaded.topology) == (self.group.instances, self.group.topology)
        assert (loaded.validated_epoch, loaded.assignor_settings) == (
            self.group.validated_epoch,
            self.group.assignor_settings,
        )
        self.group = loaded

    @rule()
    def settle(self) -> None:
        self.put_targets_off(False)
        for client in self.clients.values():
            client.full = True
        for _ in range(8):
            for member_id in list(self.clients):
                if member_id in self.clients:
                    self.beat(member_id)
        if self.group is None:
            return
        for member_id in self.group.members.keys() - self.clients.keys():
            self.commit(self.turn(lambda draft, gone=member_id: membership.remove(draft, gone)))
        for _ in range(8):
            for member_id in list(self.clients):
                self.beat(member_id)
        self.everybody_has_the_target()

    def everybody_has_the_target(self) -> None:
        group = self.group
        assert group is not None
        assert group.members.keys() == self.clients.keys()
        if not group.members:
            assert group.state is StreamsGroupState.EMPTY
            return
        ready = self.world.count("lines") > 0
        assert group.state is (StreamsGroupState.STABLE if ready else StreamsGroupState.NOT_READY)
        for member_id, client in self.clients.items():
            member = group.members[member_id]
            assert client.epoch == member.epoch == group.epoch == group.target_epoch
            assert client.runs == member.assigned.tasks == group.target_of(member_id)
        count = self.world.count("lines") if ready else 0
        active = Counter(task for client in self.clients.values() for task in client.runs.active)
        assert active == Counter((part, index) for part in "01" for index in range(count))
        processes = {PROCESSES[member_id] for member_id in self.clients}
        copies = Counter(task for client in self.clients.values() for task in client.runs.standby)
        each = min(self.world.standbys, len(processes) - 1)
        assert copies == Counter({("1", index): each for index in range(count) if each})
        busy = [len(client.runs.active) for client in self.clients.values()]
        threads = Counter(PROCESSES[member_id] for member_id in self.clients)
        if len(set(threads.values())) == 1 and not self.world.standbys:
            assert max(busy) <= -(-2 * count // len(busy)) + 1, "shared out"

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def no_task_runs_twice(self) -> None:
        running = [task for client in self.clients.values() for task in client.runs.active]
        assert len(running) == len(set(running))

    @invariant()
    def a_process_has_a_task_once(self) -> None:
        has: dict[tuple[str, Task], set[str]] = {}
        for member_id, client in self.clients.items():
            for task in client.runs.active | client.runs.standby:
                has.setdefault((PROCESSES[member_id], task), set()).add(member_id)
        assert all(len(members) == 1 for members in has.values())

    @invariant()
    def who_runs_a_task_was_given_it(self) -> None:
        if self.group is None:
            return
        given = {
            task: member_id
            for member_id, member in self.group.members.items()
            for task in [*member.assigned.active, *member.revoking.active]
        }
        assert given == self.group.running
        for member_id, client in self.clients.items():
            member = self.group.members.get(member_id)
            if member is not None and client.epoch != JOINS:
                assert client.runs.active <= member.assigned.active.keys() | member.revoking.active.keys()
        for member in self.group.members.values():
            assert (member.state is StreamsMemberState.UNREVOKED) == bool(member.revoking)
            assert member.epoch <= self.group.target_epoch


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=100, stateful_step_count=30)
