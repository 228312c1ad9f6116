"""Invariants of a consumer group (KIP-848) after any sequence of joins, heartbeats, lost responses, departures, expired
members and changing topics:

- No partition is read by two members at a time.
- A partition has one owner, who knows it or will learn it.
- A member loses a partition that is not in its target assignment.
- Without further changes every member reaches its target assignment, and each partition of a topic is assigned to one
  subscriber.
- The stored state equals the group's state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pybroker.broker.coordinators.consumer import assignment, membership, records
from pybroker.broker.coordinators.consumer.group import ConsumerGroup
from pybroker.broker.coordinators.consumer.model import (
    ConsumerGroupState,
    ConsumerHeartbeat,
    ConsumerMemberState,
    Partition,
)
from pybroker.broker.coordinators.consumer.topics import resolve
from pybroker.broker.coordinators.group_base.epoch_group import GOES_AWAY, JOINS, LEAVES
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

NAMES = ["aa", "ab", "b"]
IDS = [f"m{number}" for number in range(5)]
INSTANCES = {"m3": "static", "m4": "static"}
SUBSCRIPTIONS = [(("aa",), None), (("aa", "b"), None), ((), "a."), (("b",), "a.*"), ((), None)]
SIZE_MAX = 4
FATAL = (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)
"""Errors after which a client stops retrying."""


class View:
    """Topics that are created, grow and are deleted."""

    def __init__(self) -> None:
        self.version = 0
        self.topics: dict[str, tuple[Uuid, int]] = {}

    def names(self) -> Iterable[str]:
        return self.topics

    def topic_id(self, name: str) -> Uuid | None:
        return self.topics[name][0] if name in self.topics else None

    def partition_count(self, topic_id: Uuid) -> int:
        return next((count for known, count in self.topics.values() if known == topic_id), 0)


@dataclass
class Client:
    """A member as its own process sees it."""

    subscription: tuple[tuple[str, ...], str | None]
    epoch: int = JOINS
    reads: frozenset[Partition] = frozenset()
    told: frozenset[Partition] = frozenset()
    """The assigned partitions; it releases the others before its next heartbeat."""
    full: bool = True


class Machine(RuleBasedStateMachine):
    """One group and its clients."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.group: ConsumerGroup | None = None
        self.clients: dict[str, Client] = {}
        self.log: dict[bytes, bytes | None] = {}
        self.assignor: str | None = None
        self.early = False
        """Whether the assignment interval is still running."""

    # --- the coordinator's environment --------------------------------------------------------------------------------

    def turn(self, change: object) -> ConsumerGroup:
        before = self.group
        after = ConsumerGroup("g") if before is None else before.fork()
        change(after)  # type: ignore[operator]
        if after.epoch > after.target_epoch and not (self.early and after.members):
            assignment.assign(after, self.view, ["uniform", "range"], 0)
        return after

    def commit(self, after: ConsumerGroup) -> None:
        for key, value in records.changes(self.group, after).items():
            if value is None:
                self.log.pop(key, None)
            else:
                self.log[key] = value
        self.group = after

    def beat(self, member_id: str, *, answered: bool = True, obeys: bool = True) -> None:
        client = self.clients[member_id]
        if obeys:
            client.reads &= client.told
        topics, regex = client.subscription
        heartbeat = ConsumerHeartbeat(
            member_id,
            client.epoch,
            "client",
            "/host",
            instance_id=INSTANCES.get(member_id),
            rebalance_timeout_ms=1000 if client.full else -1,
            topics=topics if client.full else None,
            regex=(regex or "") if client.full else None,
            assignor=self.assignor if client.full else None,
            owned=client.reads,
        )
        told: list[frozenset[Partition] | None] = []

        def change(draft: ConsumerGroup) -> None:
            epoch = draft.epoch
            before = membership.enter(draft, heartbeat, SIZE_MAX, lambda one: resolve(one, self.view, _everything, 0))
            if draft.looked_at != self.view.version:
                assignment.resolve_again(draft, self.view, _everything, 0)
                assignment.look_at_topics(draft, self.view, raised=draft.epoch > epoch)
            told.append(None if before is None else frozenset(before.assigned))

        try:
            after = self.turn(change)
        except KafkaError as error:
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                # The client releases all partitions and joins again.
                self.clients[member_id] = Client(client.subscription)
            elif error.code in FATAL:
                del self.clients[member_id]
            else:
                raise
            return
        meant = assignment.meant_by(after, self.view, member_id) if after.epoch > after.target_epoch else None
        member = membership.progress(after, member_id, heartbeat.owned, meant)
        self.commit(after)
        if member.state is not ConsumerMemberState.UNREVOKED:
            assert {topic for topic, _ in member.assigned} <= assignment.meant_by(after, self.view, member_id)
        if not answered:
            # The client does not know which of its fields arrived, so it sends all fields again.
            client.full = True
            return
        client.epoch = member.epoch
        if heartbeat.is_full or told[0] != member.assigned.keys():
            client.told = frozenset(member.assigned)
            client.reads |= client.told
        client.full = False

    @initialize()
    def two_share(self) -> None:
        self.change_topic("aa", 4)
        for member_id in IDS[:2]:
            self.join(member_id, SUBSCRIPTIONS[0])

    # --- steps --------------------------------------------------------------------------------------------------------

    @rule(member_id=st.sampled_from(IDS), subscription=st.sampled_from(SUBSCRIPTIONS))
    def join(self, member_id: str, subscription: tuple[tuple[str, ...], str | None]) -> None:
        # A process that restarts with an old member id has released all partitions.
        self.clients[member_id] = Client(subscription)
        self.beat(member_id)

    @rule(member_id=st.sampled_from(IDS), answered=st.booleans(), times=st.integers(1, 3), obeys=st.booleans())
    def heartbeat(self, member_id: str, answered: bool, times: int, obeys: bool) -> None:
        for _ in range(times):
            if member_id in self.clients:
                self.beat(member_id, answered=answered, obeys=obeys)

    @rule(member_id=st.sampled_from(IDS), subscription=st.sampled_from(SUBSCRIPTIONS))
    def change_subscription(self, member_id: str, subscription: tuple[tuple[str, ...], str | None]) -> None:
        if member_id in self.clients:
            self.clients[member_id].subscription = subscription
            self.clients[member_id].full = True
            self.beat(member_id)

    @rule(member_id=st.sampled_from(IDS), for_ever=st.booleans())
    def leave(self, member_id: str, for_ever: bool) -> None:
        if self.group is None or self.clients.pop(member_id, None) is None:
            return
        instance = INSTANCES.get(member_id)
        epoch = LEAVES if for_ever or instance is None else GOES_AWAY
        try:
            after = self.turn(
                lambda draft: membership.leave(
                    draft, ConsumerHeartbeat(member_id, epoch, "client", "/host", instance_id=instance)
                )
            )
        except KafkaError as error:
            if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                raise
        else:
            self.commit(after)

    @precondition(lambda self: self.group is not None and self.group.members)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        assert self.group is not None
        member_id = data.draw(st.sampled_from(sorted(self.group.members)))
        # The client itself has noticed before: its session is shorter.
        if member_id in self.clients:
            self.clients[member_id] = Client(self.clients[member_id].subscription)
        self.commit(self.turn(lambda draft: membership.remove(draft, member_id)))

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(0, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        self.view.version += 1
        if not partitions:
            self.view.topics.pop(name, None)
        elif name in self.view.topics and self.view.topics[name][1] < partitions:
            self.view.topics[name] = self.view.topics[name][0], partitions
        else:
            self.view.topics[name] = Uuid(1, self.view.version), partitions

    @rule(early=st.booleans())
    def put_targets_off(self, early: bool) -> None:
        """Begin or stop to delay target assignments."""
        self.early = early
        if not early and self.group is not None:
            self.commit(self.turn(lambda draft: None))

    @rule(name=st.sampled_from(["uniform", "range", None]))
    def prefer(self, name: str | None) -> None:
        self.assignor = name

    @precondition(lambda self: self.group is not None)
    @rule()
    def load(self) -> None:
        assert self.group is not None
        stored = records.StoredConsumerGroup()
        for key, value in self.log.items():
            _, name = records.TYPES.decode_key(int.from_bytes(key[:2], "big"), key[2:])
            stored.take(int.from_bytes(key[:2], "big"), name, value)
        loaded = stored.group("g")
        assert loaded is not None
        assert (loaded.epoch, loaded.target_epoch) == (self.group.epoch, self.group.target_epoch)
        assert loaded.members == self.group.members
        assert {k: v for k, v in loaded.target.items() if v} == {k: v for k, v in self.group.target.items() if v}
        assert loaded.owners == self.group.owners
        assert loaded.instances == self.group.instances
        assert loaded.subscribed == self.group.subscribed
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
            assert self.group is None or self.group.epoch == self.group.target_epoch or not self.clients
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
            assert group.state is ConsumerGroupState.EMPTY
            return
        assert group.state is ConsumerGroupState.STABLE
        for member_id, client in self.clients.items():
            member = group.members[member_id]
            assert client.epoch == member.epoch == group.epoch == group.target_epoch
            assert client.reads == member.assigned.keys() == group.target_of(member_id)
            names = group.names_of(*client.subscription)
            assert {topic for topic, _ in client.reads} <= {self.view.topic_id(name) for name in names}
        wanted = {
            (topic_id, index)
            for name, (topic_id, count) in self.view.topics.items()
            if name in group.subscribed
            for index in range(count)
        }
        assert {partition for client in self.clients.values() for partition in client.reads} == wanted

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        reading = [partition for client in self.clients.values() for partition in client.reads]
        assert len(reading) == len(set(reading))

    @invariant()
    def owners_are_those_who_were_given(self) -> None:
        if self.group is None:
            return
        given = {
            partition: member_id
            for member_id, member in self.group.members.items()
            for partition in [*member.assigned, *member.revoking]
        }
        assert given == self.group.owners
        for member_id, client in self.clients.items():
            member = self.group.members.get(member_id)
            if member is not None and client.epoch != JOINS:
                assert client.reads <= member.assigned.keys() | member.revoking.keys()
        for member in self.group.members.values():
            assert (member.state is ConsumerMemberState.UNREVOKED) == bool(member.revoking)
            assert member.epoch <= self.group.target_epoch


def _everything(name: str) -> bool:
    return True


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=100, stateful_step_count=30)
