"""Invariants of a classic group after any sequence of joins, syncs, heartbeats, leaves, restarts of instances and
passing time:

- Each request is answered exactly once.
- A generation has one leader, who is a member.
- Members of one generation get assignments of that generation only.
- A response or a commit by data threads equals the coordinator's own, and requests to data threads extend the session.
- Time alone ends every rebalance, and empties a group whose members send nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.group.classic_group import ClassicGroup, ClassicGroupState, JoinResult, SyncResult
from pybroker.broker.coordinators.group.rebalance import ClassicRebalances
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.requests import CommitRequest, LeavingMember, SyncRequest
from pybroker.broker.coordinators.shards.cached_responses import COMMITS, HEARTBEATS
from pybroker.broker.coordinators.shards.timers import TICK_MS, TimerWheel
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import FakeTopics, join_request

CLIENTS = 5
SESSION_MS, ROUND_MS = 10_000, 20_000
INSTANCES = st.sampled_from([None, "x", "y"])
PROTOCOLS = st.sampled_from([(("range", b"1"),), (("range", b"2"), ("sticky", b"2")), (("sticky", b"3"),)])


class Store:
    """Holds writes until the machine decides how they end."""

    initial_rebalance_delay_ms = 3_000
    max_size = 4

    def __init__(self) -> None:
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.formed_generations: list[int] = []

    def store(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]) -> None:
        self.waiting.append(done)

    def formed(self, group: ClassicGroup) -> None:
        self.formed_generations.append(group.generation)

    def emptied(self, group: ClassicGroup) -> None:
        return


class Call:
    """One request and its responses."""

    def __init__(self) -> None:
        self.answers: list[JoinResult | SyncResult] = []

    def __call__(self, answer: JoinResult | SyncResult) -> None:
        self.answers.append(answer)


class Answer:
    """A cached response that data threads repeat."""

    def __init__(self, clock: FakeClock, beat: tuple[str, str | None, int]) -> None:
        self._clock = clock
        self.beat = beat
        self.heard_ms = clock.monotonic_ms()
        self.valid = True

    def invalidate(self) -> None:
        self.valid = False

    def idle_ms(self) -> int:
        return self._clock.monotonic_ms() - self.heard_ms


class GroupMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock()
        self.wheel = TimerWheel(self.clock)
        self.store = Store()
        self.rebalances = ClassicRebalances(self.store, self.clock, self.wheel, self.store, GroupStatistics())
        self.group = ClassicGroup("g")
        self.calls: list[Call] = []
        self.ids = [""] * CLIENTS
        self.generations = [-1] * CLIENTS
        self.instances: list[str | None] = [None] * CLIENTS
        self.joining: list[Call | None] = [None] * CLIENTS
        self.answers: list[Answer] = []

    def learn(self) -> None:
        """Let clients read their responses."""
        for client, call in enumerate(self.joining):
            if call is None or not call.answers:
                continue
            self.joining[client] = None
            answer = call.answers[0]
            assert isinstance(answer, JoinResult)
            if answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.ids[client] = answer.member_id
                self.generations[client] = answer.generation
            elif answer.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.ids[client] = ""

    @rule(client=st.integers(0, CLIENTS - 1), protocols=PROTOCOLS, instance=INSTANCES)
    def join(self, client: int, protocols: tuple[tuple[str, bytes], ...], instance: str | None) -> None:
        if not self.ids[client]:
            self.instances[client] = instance
        call = Call()
        self.calls.append(call)
        self.joining[client] = call
        self.rebalances.join(
            self.group,
            join_request(
                self.ids[client],
                protocols=protocols,
                instance_id=self.instances[client],
                rebalance_timeout_ms=ROUND_MS,
            ),
            call,
        )
        self.learn()

    @rule(client=st.integers(0, CLIENTS - 1))
    def sync(self, client: int) -> None:
        call = Call()
        self.calls.append(call)
        wanted = tuple((m, f"{self.group.generation}:{m}".encode()) for m in self.group.members)
        self.rebalances.sync(
            self.group,
            SyncRequest(self.ids[client], self.instances[client], self.generations[client], None, None, wanted),
            call,
        )

    @rule(client=st.integers(0, CLIENTS - 1))
    def heartbeat(self, client: int) -> None:
        beat = self.ids[client], self.instances[client], self.generations[client]
        code = self.rebalances.heartbeat(self.group, *beat)
        if code is ErrorCode.NONE:
            assert self.generations[client] == self.group.generation
            self.keep(beat, HEARTBEATS)

    @rule(client=st.integers(0, CLIENTS - 1))
    def commit(self, client: int) -> None:
        beat = self.ids[client], self.instances[client], self.generations[client]
        try:
            self.group.check_commit(CommitRequest("g", *beat, ()), FakeTopics())
        except KafkaError:
            return
        self.rebalances.heard_commit(self.group, beat[0])
        if beat[0] in self.group.members:
            self.keep(beat, COMMITS)

    def keep(self, beat: tuple[str, str | None, int], what: str) -> None:
        """Let data threads use the lease until the group changes."""
        if self.group.state is ClassicGroupState.STABLE:
            answer = Answer(self.clock, beat)
            self.group.cached_responses.keep(beat[0], answer, what)
            self.answers.append(answer)

    @rule(count=st.integers(1, 3))
    def settle(self, count: int) -> None:
        """Run a rebalance to its end: random steps hardly ever lead to a stable group."""
        clients = range(count)
        for _ in range(10):
            for client in clients:
                knows = self.ids[client] and self.generations[client] == self.group.generation
                if self.joining[client] is None and (
                    not knows or self.group.state is ClassicGroupState.PREPARING_REBALANCE
                ):
                    self.join(client, (("range", b"1"),), None)
            self.pass_time(4_000)
            for client in clients:
                self.sync(client)
            self.writes_end(fails=False)
            if self.group.state is ClassicGroupState.STABLE and all(
                self.generations[client] == self.group.generation for client in clients
            ):
                break
        for client in clients:
            self.heartbeat(client)
            self.commit(client)

    @rule(which=st.integers(0, 20))
    def heartbeat_without_the_coordinator(self, which: int) -> None:
        valid = [answer for answer in self.answers if answer.valid]
        if valid:
            answer = valid[which % len(valid)]
            answer.heard_ms = self.clock.monotonic_ms()

    @rule(client=st.integers(0, CLIENTS - 1))
    def leave(self, client: int) -> None:
        (code,) = self.rebalances.leave(self.group, [LeavingMember(self.ids[client], self.instances[client])])
        if code is ErrorCode.NONE:
            self.ids[client] = ""
        self.learn()

    @rule(client=st.integers(0, CLIENTS - 1))
    def crash(self, client: int) -> None:
        self.ids[client] = ""
        self.joining[client] = None

    @rule(ms=st.sampled_from([10, 1_000, 4_000, 11_000, 25_000]))
    def pass_time(self, ms: int) -> None:
        settled = set(self.group.members) if self.group.state is ClassicGroupState.STABLE else set()
        self.clock.advance(ms)
        self.wheel.advance()
        if ms < ROUND_MS:
            # The time is not long enough for a rebalance to end without a member.
            now_ms = self.clock.monotonic_ms()
            heard = {answer.beat[0] for answer in self.answers if now_ms - answer.heard_ms < SESSION_MS}
            assert not (settled - set(self.group.members)) & heard
        self.learn()

    @rule(fails=st.booleans())
    def writes_end(self, fails: bool) -> None:
        waiting, self.store.waiting = self.store.waiting, []
        for done in waiting:
            done(ErrorCode.NOT_COORDINATOR if fails else ErrorCode.NONE)
        self.learn()

    @invariant()
    def every_request_is_answered_at_most_once(self) -> None:
        assert all(len(call.answers) <= 1 for call in self.calls)
        parked = sum((m.reply_join is not None) + (m.reply_sync is not None) for m in self.group.members.values())
        static_returns = sum(1 for call in self.calls if not call.answers)
        assert parked == static_returns

    @invariant()
    def a_valid_cached_response_equals_the_response_of_the_coordinator(self) -> None:
        for answer in self.answers:
            if answer.valid:
                member_id, instance_id, generation = answer.beat
                assert self.group.state is ClassicGroupState.STABLE
                assert self.group.check_member(member_id, instance_id).member_id == member_id
                assert generation == self.group.generation
                heard_ms = max(one.heard_ms for one in self.answers if one.beat[0] == member_id)
                assert self.clock.monotonic_ms() - heard_ms < SESSION_MS + TICK_MS

    @invariant()
    def the_books_agree(self) -> None:
        group = self.group
        assert group.awaiting_join == sum(m.reply_join is not None for m in group.members.values())
        assert (group.leader_id is None) == (not group.members)
        assert group.leader_id is None or group.leader_id in group.members
        assert {m.instance_id: m.member_id for m in group.members.values() if m.instance_id} == group.static_members
        counts: dict[str, int] = {}
        for member in group.members.values():
            for name, _ in member.protocols:
                counts[name] = counts.get(name, 0) + 1
        assert counts == group.protocol_counts
        assert group.pending_syncs <= set(group.members)
        assert not group.pending_joins & set(group.members)
        if group.state is ClassicGroupState.EMPTY:
            assert not group.members
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            assert group.members
            assert all(group.protocol_name in dict(m.protocols) for m in group.members.values())
        if group.state is ClassicGroupState.STABLE:
            for member in group.members.values():
                assert member.reply_sync is None

    @invariant()
    def every_member_has_a_session(self) -> None:
        for member_id, member in self.group.members.items():
            assert member.awaits_rebalance or ("session", "g", member_id) in self.wheel

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.store.formed_generations == sorted(set(self.store.formed_generations))

    def teardown(self) -> None:
        """Let all clients stop sending: time alone answers all requests and empties the group."""
        if not hasattr(self, "group"):
            return
        for _ in range(60):
            self.clock.advance(10_000)
            self.wheel.advance()
            waiting, self.store.waiting = self.store.waiting, []
            for done in waiting:
                done(ErrorCode.NONE)
        assert not self.group.members
        assert not self.group.pending_joins
        assert self.group.state is ClassicGroupState.EMPTY
        assert all(len(call.answers) == 1 for call in self.calls)
        assert len(self.wheel) == 0


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
