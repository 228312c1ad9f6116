"""One classic group: its state, its members, its generation. Pure data and transitions; no IO, no clock, no timers.

    Empty ──join──► PreparingRebalance ──all joined, or time is up──► CompletingRebalance ──sync stored──► Stable
      ▲                │      ▲                                            │                                 │
      └───no members───┘      └───────────member joins, leaves, expires────┴─────────────────────────────────┘
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
from pybroker.broker.coordinators.group_base.group_registry import Group, GroupKind, not_found
from pybroker.broker.coordinators.group_base.metadata_size import MEMBER_BYTES
from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.group_base.requests import CommitRequest, Protocols
from pybroker.broker.coordinators.shards.cached_responses import CachedResponses
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class ClassicGroupState(StrEnum):
    """The states, spelt as in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_MOVES: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}
"""State → the states from which a group may enter it."""


def metadata_bytes(protocols: Protocols) -> int:
    """Return the approximate memory, in bytes, that a member's protocols take."""
    return sum(len(name) + len(data) for name, data in protocols)


def member_bytes(client_id: str, instance_id: str | None) -> int:
    """Return the approximate memory, in bytes, that a member takes besides its protocols. It depends on the names that
    the client chooses."""
    names = len(client_id) + len(instance_id or "")
    return MEMBER_BYTES + len(client_id) + names


class JoinResult(msgspec.Struct, frozen=True):
    """The result of a JoinGroup, independent of its version."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """(member id, instance id, metadata); only the group's leader gets them."""


class SyncResult(msgspec.Struct, frozen=True):
    """The result of a SyncGroup."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


def new_member_id(client_id: str, instance_id: str | None) -> str:
    """Return a new id: the instance id or the client id, then a random UUID."""
    return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"


JoinReply = Callable[[JoinResult], None]
SyncReply = Callable[[SyncResult], None]


class ClassicMember(msgspec.Struct):
    """One member. `reply_join` and `reply_sync` are set while the coordinator holds a request of the member."""

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
    """True until the member's first rebalance ends. While its JoinGroup is held, a new member can expire."""
    reply_join: JoinReply | None = None
    reply_sync: SyncReply | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def awaits_rebalance(self) -> bool:
        """Whether the coordinator holds a request of the member. A held request counts as a heartbeat."""
        return not self.is_new and (self.reply_join is not None or self.reply_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for one protocol; empty if the member does not support it."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the candidate that the member prefers."""
        return next(name for name, _ in self.protocols if name in candidates)

    def park_sync(self, reply: SyncReply) -> None:
        """Hold a SyncGroup until the assignment is known. If a SyncGroup of the member is already held, end it: the
        client has abandoned it."""
        self.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self.reply_sync = reply

    def answer_sync(self, result: SyncResult) -> bool:
        """Answer the held SyncGroup. Return False if no SyncGroup is held."""
        reply, self.reply_sync = self.reply_sync, None
        if reply is None:
            return False
        reply(result)
        return True


class ClassicGroup(msgspec.Struct, Group, eq=False):
    """One group's state. Methods change it and check that the change is legal. They use no clock and no timers."""

    kind = GroupKind.CLASSIC

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    state_timestamp_ms: int = -1
    """Wall time (ms) of the last state change; −1: unknown. If it is unknown, the expiry of offsets uses their commit
    times."""
    generation: int = 0
    protocol_type: str | None = None
    """None: the group never had a member and only has offsets."""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicMember] = {}
    static_members: dict[str, str] = {}
    """group.instance.id → member id."""
    pending_joins: set[str] = set()
    """Member ids that the coordinator has assigned (KIP-394), but with which no client has joined yet."""
    pending_syncs: set[str] = set()
    """Members of this generation that have not sent SyncGroup yet."""
    awaiting_join: int = 0
    """Number of members whose JoinGroup is held."""
    protocol_counts: dict[str, int] = {}
    """Protocol → number of members that support it."""
    metadata_bytes: int = 0
    """Bytes of the metadata of all members, for all protocols."""
    member_bytes: int = 0
    """Memory of members and of assigned member ids, besides the metadata."""
    in_initial_delay: bool = False
    """True during the group's first rebalance until the initial delay ends. The rebalance stays open even if all
    members have joined."""
    new_member_added: bool = False
    """True if a member has joined during the initial delay. The delay is then extended once more."""
    subscribed_topics: frozenset[str] | None = None
    """Topics to which any member subscribes; None: not known."""
    formed_topics: dict[str, Uuid] = {}
    """Topic ids when the generation formed. If a commit names a topic that now has another id, the coordinator refuses
    the commit."""
    formed_at: int = 0
    """Number of topic removals, as counted by the coordinator, when the generation formed."""
    identity: object = msgspec.field(default_factory=object)
    cached_responses: CachedResponses = msgspec.field(default_factory=CachedResponses)
    """Cached heartbeat responses for the members of a stable group."""

    # --- state --------------------------------------------------------------------------------------------------------

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Change the state. Raise ValueError on an illegal transition, which is a bug."""
        if self.state not in LEGAL_MOVES[state]:
            raise ValueError(f"group {self.group_id}: {self.state} → {state}")
        self.cached_responses.invalidate()
        self.state = state
        self.state_timestamp_ms = now_ms

    def is_in(self, *states: ClassicGroupState) -> bool:
        return self.state in states

    @property
    def can_rebalance(self) -> bool:
        """Whether the group may enter PreparingRebalance from its current state."""
        return self.state in LEGAL_MOVES[ClassicGroupState.PREPARING_REBALANCE]

    @property
    def listed_type(self) -> str:
        """The members' protocol type."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Whether the group is in state Empty. A group that rebalances is not Empty, even if all members have left."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def expects_members(self) -> bool:
        """Whether the coordinator assigned member ids (KIP-394) with which no client has joined yet."""
        return bool(self.pending_joins)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers. The metadata of consumers names topics."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # --- members ------------------------------------------------------------------------------------------------------

    @property
    def all_joined(self) -> bool:
        """Whether every member has (re)joined and every assigned member id has been used."""
        return not self.pending_joins and self.awaiting_join == len(self.members)

    def park_join(self, member: ClassicMember, reply: JoinReply) -> None:
        """Hold a JoinGroup until the rebalance ends. If a JoinGroup of the member is already held, end it: the client
        has abandoned it."""
        self.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.reply_join = reply
        self.awaiting_join += 1

    def answer_join(self, member: ClassicMember, result: JoinResult) -> None:
        """Answer a member's held JoinGroup, if there is one."""
        reply, member.reply_join = member.reply_join, None
        if reply is not None:
            self.awaiting_join -= 1
            reply(result)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicMember) -> None:
        """Add a member. The first member sets the protocol type and becomes the leader."""
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
        self.drop_expected(member.member_id)

    def expect(self, member_id: str) -> None:
        """Add a member id that was assigned to a client (KIP-394)."""
        self.pending_joins.add(member_id)
        self.member_bytes += MEMBER_BYTES + len(member_id)

    def drop_expected(self, member_id: str) -> None:
        """Remove an assigned member id, if it is expected."""
        if member_id in self.pending_joins:
            self.pending_joins.remove(member_id)
            self.member_bytes -= MEMBER_BYTES + len(member_id)

    @property
    def bytes_beside_metadata(self) -> int:
        """Return the memory of the group and its members besides the metadata; 0 for a group that only has offsets."""
        return self.member_bytes and self.member_bytes + MEMBER_BYTES + len(self.group_id)

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Update a member from its new JoinGroup."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, +1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _count(self, member: ClassicMember, change: int) -> None:
        self.metadata_bytes += change * metadata_bytes(member.protocols)
        self.member_bytes += change * member_bytes(member.client_id, member.instance_id)
        for name, _ in member.protocols:
            count = self.protocol_counts.get(name, 0) + change
            if count:
                self.protocol_counts[name] = count
            else:
                del self.protocol_counts[name]

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id.

        Held requests get UNKNOWN_MEMBER_ID; a client that is still alive then joins again. If the member was the
        leader, the next member becomes the leader.
        """
        self.cached_responses.forget(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            self._count(member, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.drop_expected(member_id)
        self.pending_syncs.discard(member_id)
        return member

    def replace_static(self, instance_id: str, new_member_id: str) -> ClassicMember:
        """Give a new member id to the member of a restarted instance. Held requests under the old id get
        FENCED_INSTANCE_ID."""
        old_member_id = self.static_members[instance_id]
        self.cached_responses.forget(old_member_id)
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
        """Make a member that has joined the leader. Return False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].reply_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.reply_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member. Raise KafkaError UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the instance id now belongs
        to another member id."""
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

    # --- offsets ------------------------------------------------------------------------------------------------------

    def check_commit(self, request: CommitRequest, topics: Topics) -> None:
        """Check an offset commit by the member's generation.

        Before KIP-447, clients name no member when they commit in a transaction. Only their transactional id fences
        them. Raise KafkaError COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION or
        REBALANCE_IN_PROGRESS.
        """
        if self.state is ClassicGroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if request.generation < 0:
            if self.is_empty:
                return
            if not request.member_id and request.instance_id is None:
                if request.producer is not None:
                    return
                # An administrator or a consumer outside the group may commit only while the group has no members.
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.check_member(request.member_id, request.instance_id)
        if request.generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and request.producer is None:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def incarnation_error(
        self, request: CommitRequest, name: str, topic_id: Uuid, topics: Topics, removals: Removals
    ) -> ErrorCode | None:
        """Return REBALANCE_IN_PROGRESS if the topic name had another incarnation when the member's generation formed.
        """
        if request.generation < 0:
            return None
        known = self.formed_topics.get(name)
        if known is None:
            differs = removals.since(name, self.formed_at)
        elif known == Uuid.ZERO:
            # No member of this generation was assigned a partition of the current incarnation. If the name had an
            # earlier incarnation, the offset may be a position in that one.
            differs = not topics.had_name_alone(topic_id)
        else:
            differs = known != topic_id
        return ErrorCode.REBALANCE_IN_PROGRESS if differs else None

    def check_offset_deletion(self) -> None:
        """Raise KafkaError GROUP_ID_NOT_FOUND if the group is dead, or NON_EMPTY_GROUP if its subscriptions are not
        known."""
        if self.state is ClassicGroupState.DEAD:
            raise not_found(self.group_id)
        if not self.is_empty and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def retained_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return the wall time (ms) at which the retention of an offset begins; see `expiry`."""
        if self.is_empty and self.protocol_type is not None and self.state_timestamp_ms >= 0:
            return self.state_timestamp_ms
        readable = self.uses_consumer_protocol and self.subscribed_topics is not None
        if self.is_empty or (self.state is ClassicGroupState.STABLE and readable):
            return commit_timestamp_ms
        return None

    # --- protocols ----------------------------------------------------------------------------------------------------

    def _candidates(self) -> frozenset[str]:
        """Return the protocols that every member supports."""
        return frozenset(name for name, count in self.protocol_counts.items() if count == len(self.members))

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a client with these protocols may join."""
        names = list(protocols)
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if protocol_type != self.protocol_type:
            return False
        # While no client has joined with an assigned member id, any protocol is compatible.
        if not self.members:
            return bool(names)
        return any(self.protocol_counts.get(name) == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Among the protocols that all members support, return the protocol with most votes. In a tie, return the
        protocol that got a vote first."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def next_generation(self, now_ms: int) -> None:
        """End the join phase: start the next generation. Select its protocol, or leave the group empty if it has no
        members."""
        # The protocol has 31 bits for generations. A wrap-around does no harm, because code only tests generations for
        # equality.
        self.generation = self.generation + 1 if self.generation < 0x7FFFFFFF else 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.transition_to(ClassicGroupState.EMPTY, now_ms)
        self.read_subscriptions()
        self.pending_syncs.clear()

    def read_subscriptions(self) -> None:
        """Update `subscribed_topics`. Called when a generation forms or is loaded from the log."""
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
        """Return whether a member may read `topic`. True for consumers whose subscription cannot be decoded."""
        if self.is_empty:
            return False
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.uses_consumer_protocol

    def join_members(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """Return (member id, instance id, metadata) of all members, from which the leader computes the assignment."""
        return tuple((m.member_id, m.instance_id, m.metadata(self.protocol_name)) for m in self.members.values())

    def join_result(self, member_id: str, *, skip_assignment: bool = False) -> JoinResult:
        """Return the successful result for one member of the current generation."""
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
