"""One classic group: its state, its members, its generation. Pure data and transitions; no IO, no clock, no timers.

    Empty ──join──► PreparingRebalance ──all joined, or time is up──► CompletingRebalance ──sync stored──► Stable
      ▲                │      ▲                                            │                                 │
      └──nobody left───┘      └───────────member joins, leaves, expires────┴─────────────────────────────────┘
    any state ──deleted, expired──► Dead

Behaviour follows Kafka's ClassicGroup; KIP-345 (static members), KIP-394 (member id required), KIP-814 (skip
assignment).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from pybroker.broker.coordinators.group.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_by_all
from pybroker.broker.coordinators.shards.standing import StandingAnswers
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class GroupState(StrEnum):
    """The states, spelt as DescribeGroups and ListGroups print them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_MOVES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""State → the states it may be entered from."""

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


def metadata_bytes(protocols: Protocols) -> int:
    """What they take in memory, roughly."""
    return sum(len(name) + len(data) for name, data in protocols)


class JoinResult(msgspec.Struct, frozen=True):
    """What a JoinGroup is answered with, free of versions."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """(member id, instance id, metadata); for the leader only."""


class SyncResult(msgspec.Struct, frozen=True):
    """What a SyncGroup is answered with."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


def new_member_id(client_id: str, instance_id: str | None) -> str:
    """A fresh id: the instance's or the client's name, then a random UUID."""
    return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"


JoinReply = Callable[[JoinResult], None]
SyncReply = Callable[[SyncResult], None]


class Member(msgspec.Struct):
    """One member. `reply_join` and `reply_sync` are set while a request of its is parked."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """True until its first rebalance is over: such a member can expire while its JoinGroup is parked."""
    reply_join: JoinReply | None = None
    reply_sync: SyncReply | None = None

    @property
    def is_static(self) -> bool:
        """It carries a group.instance.id."""
        return self.instance_id is not None

    @property
    def awaits_rebalance(self) -> bool:
        """A parked request stands for its heartbeats."""
        return not self.is_new and (self.reply_join is not None or self.reply_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for one protocol; empty when it has none."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate it likes best."""
        return next(name for name, _ in self.protocols if name in candidates)

    def park_sync(self, reply: SyncReply) -> None:
        """Keeps a SyncGroup until the assignment is known. A request that still waits was given up by its client."""
        self.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self.reply_sync = reply

    def answer_sync(self, result: SyncResult) -> bool:
        """Answers the parked SyncGroup; False when there was none."""
        reply, self.reply_sync = self.reply_sync, None
        if reply is None:
            return False
        reply(result)
        return True


class Group(msgspec.Struct, eq=False):
    """One group's state. Methods change it and check that the change is legal; they decide nothing about time."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int = -1
    """Wall time of the last transition; −1 when not known (offset expiry then goes by the commit time)."""
    generation: int = 0
    protocol_type: str | None = None
    """None while nobody has joined: a group that only commits offsets."""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = {}
    static_members: dict[str, str] = {}
    """group.instance.id → member id."""
    pending_joins: set[str] = set()
    """Ids handed out (KIP-394) whose owners have not joined with them yet."""
    pending_syncs: set[str] = set()
    """Members of this generation whose SyncGroup has not come yet."""
    awaiting_join: int = 0
    """Members whose JoinGroup is parked."""
    protocol_counts: dict[str, int] = {}
    """Protocol → how many members support it."""
    metadata_bytes: int = 0
    """Of all members, for all protocols."""
    in_initial_delay: bool = False
    """The first round of the group is kept open, whoever has joined."""
    new_member_added: bool = False
    """Somebody joined during the initial delay, which is then prolonged once more."""
    subscribed_topics: frozenset[str] | None = None
    """Topics of all members; None when not known."""
    formed_topics: dict[str, Uuid] = {}
    """Topic ids at the time the generation was formed: a commit by name for another incarnation is refused."""
    formed_at: int = 0
    """The coordinator's count of topic removals at that time."""
    life: object = msgspec.field(default_factory=object)
    """The same while the group lives, also when it changes its protocol."""
    answers: StandingAnswers = msgspec.field(default_factory=StandingAnswers)
    """To heartbeats of members while it is stable."""

    # --- state --------------------------------------------------------------------------------------------------------

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Moves to `state`; an illegal move is a bug and raises ValueError."""
        if self.state not in LEGAL_MOVES[state]:
            raise ValueError(f"group {self.group_id}: {self.state} → {state}")
        self.answers.take_back()
        self.state = state
        self.state_timestamp_ms = now_ms

    def is_in(self, *states: GroupState) -> bool:
        """It is in one of `states`."""
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        """PreparingRebalance may be entered from here."""
        return self.state in LEGAL_MOVES[GroupState.PREPARING_REBALANCE]

    @property
    def uses_consumer_protocol(self) -> bool:
        """Its members are consumers, whose metadata names topics."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # --- members ------------------------------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        """Every member has (re)joined and nobody holds an id without having joined."""
        return not self.pending_joins and self.awaiting_join == len(self.members)

    def park_join(self, member: Member, reply: JoinReply) -> None:
        """Keeps a JoinGroup until the round is over. A request that still waits was given up by its client."""
        self.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.reply_join = reply
        self.awaiting_join += 1

    def answer_join(self, member: Member, result: JoinResult) -> None:
        """Answers a member's parked JoinGroup, if there is one."""
        reply, member.reply_join = member.reply_join, None
        if reply is not None:
            self.awaiting_join -= 1
            reply(result)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        """Takes a member in; the first one gives the protocol type and leads."""
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise ValueError(f"instance {member.instance_id} is a member already")
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, +1)
        self.pending_joins.discard(member.member_id)

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Takes over what a member says when it joins again."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, +1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _count(self, member: Member, change: int) -> None:
        self.metadata_bytes += change * metadata_bytes(member.protocols)
        for name, _ in member.protocols:
            count = self.protocol_counts.get(name, 0) + change
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]

    def remove(self, member_id: str) -> Member | None:
        """Forgets a member or a pending id. What it has parked is answered UNKNOWN_MEMBER_ID, upon which a live client
        joins anew. The next member leads if it led."""
        self.answers.forget(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            self._count(member, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        return member

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """A restarted instance takes its member's place under a new id; whoever waits under the old id is fenced."""
        old_member_id = self.static_members[instance_id]
        self.answers.forget(old_member_id)
        member = self.members.pop(old_member_id)
        self.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        member.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_member_id
        member.is_new = False
        self.members[new_member_id] = member
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[instance_id] = new_member_id
        self.pending_syncs.discard(old_member_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader is one of those who joined; False when nobody did."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].reply_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.reply_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member, or KafkaError UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when its instance goes by another id."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool = False
    ) -> Member | None:
        """Whether an offset commit may pass; the member it keeps alive, None for one from outside the group. In a
        transaction, a client that names no member (before KIP-447) is fenced by its transactional id alone.

        KafkaError: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS.
        """
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.state is GroupState.EMPTY:
            return None
        if generation < 0 and not member_id and instance_id is None:
            if in_transaction:
                return None
            # An administrator or a consumer outside the group: only while no member can be contradicted.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_member(member_id, instance_id)
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    # --- protocols ----------------------------------------------------------------------------------------------------

    def _candidates(self) -> frozenset[str]:
        """Protocols that every member supports."""
        return frozenset(name for name, count in self.protocol_counts.items() if count == len(self.members))

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether somebody with these protocols may join."""
        names = list(protocols)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if protocol_type != self.protocol_type:
            return False
        # With ids handed out but no member left, nobody is contradicted.
        if not self.members:
            return bool(names)
        return any(self.protocol_counts.get(name) == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all support; the earlier vote wins a tie."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, now_ms: int) -> None:
        """The join round is over: the next generation, with a protocol, or empty."""
        # Generations are compared for equality only; the wire has 31 bits for them.
        self.generation = self.generation + 1 if self.generation < 0x7FFFFFFF else 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.transition_to(GroupState.EMPTY, now_ms)
        self.read_subscriptions()
        self.pending_syncs.clear()

    def read_subscriptions(self) -> None:
        """Finds out which topics the members subscribe to; called when a generation forms or is loaded."""
        if not self.uses_consumer_protocol:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is None:
            self.subscribed_topics = None
        else:
            self.subscribed_topics = subscribed_by_all(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading `topic`: true for consumers whose subscription cannot be read."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.uses_consumer_protocol

    def join_members(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """What the leader assigns from."""
        return tuple((m.member_id, m.instance_id, m.metadata(self.protocol_name)) for m in self.members.values())

    def join_result(self, member_id: str, *, skip_assignment: bool = False) -> JoinResult:
        """The successful answer for one member of the present generation."""
        leads = member_id == self.leader_id
        return JoinResult(
            ErrorCode.NONE,
            member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader_id or "",
            skip_assignment and leads,
            self.join_members() if leads else (),
        )
