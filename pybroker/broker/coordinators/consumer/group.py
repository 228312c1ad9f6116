"""One consumer group: epochs, members, the target. Pure data and its bookkeeping; no IO, no clock, no timers.

    member joins, leaves, changes its subscription, a topic changes ──► epoch + 1
    epoch > target epoch                                            ──► a new target at that epoch (`assignment`)
    a member's heartbeat                                            ──► one step towards the target (`reconciliation`)

A partition has at most one owner: a member owns it until it confirms the revocation or is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pybroker.broker.coordinators.consumer.model import (
    ClassicSide,
    ConsumerGroupState,
    ConsumerMember,
    Partition,
    ResolvedRegex,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NOTHING: frozenset[Partition] = frozenset()


class ConsumerGroup:
    """One consumer group. The values in its dictionaries are immutable.

    A caller changes a `fork` and installs it in place of the original once the change is durable.
    """

    def __init__(self, group_id: str, life: object | None = None) -> None:
        self.group_id = group_id
        self.life = object() if life is None else life
        """Identity of the group; it survives a change of the group's protocol."""
        self.epoch = 0
        self.topics_hash = 0
        """Hash of the subscribed topics and their partition counts; 0: no topics."""
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.target: dict[str, frozenset[Partition]] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.instances: dict[str, str] = {}
        """group.instance.id → member id."""
        self.owners: dict[Partition, str] = {}
        """Partition → the member that may be reading it."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.looked_at = -1
        """Version of the broker's topic view that the epoch reflects; −1: none."""
        self.subscribed: frozenset[str] = frozenset()
        """Names of all topics that members subscribe to, by name or by expression."""
        self.successor: Mapping[bytes, bytes | None] | None = None
        """Records that replace the group when it changes its protocol; None: the protocol stays."""

    def fork(self) -> ConsumerGroup:
        """Return a copy for changes."""
        copy = ConsumerGroup(self.group_id, self.life)
        copy.epoch, copy.topics_hash = self.epoch, self.topics_hash
        copy.target_epoch, copy.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        copy.target = dict(self.target)
        copy.members = dict(self.members)
        copy.instances = dict(self.instances)
        copy.owners = dict(self.owners)
        copy.regexes = dict(self.regexes)
        copy.looked_at, copy.subscribed = self.looked_at, self.subscribed
        return copy

    def become(self, other: ConsumerGroup) -> None:
        """Take over the state of a copy."""
        self.__dict__.update(other.__dict__)

    @property
    def state(self) -> ConsumerGroupState:
        """The state that tools show."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_settled(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members may be reading the topic."""
        return topic in self.subscribed

    # --- members ------------------------------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace its previous state."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        for held in (member.assigned, member.revoking):
            for partition in held:
                owner = self.owners.setdefault(partition, member.member_id)
                if owner != member.member_id:
                    raise ValueError(f"group {self.group_id}: {partition} of {owner} is given to {member.member_id}")
        if before is None or before.subscription is not member.subscription:
            self.note_subscribed()

    def remove(self, member_id: str) -> None:
        """Remove a member and release its partitions."""
        member = self.members.pop(member_id)
        self.target.pop(member_id, None)
        self._release(member)
        self.note_subscribed()

    def _release(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        for held in (member.assigned, member.revoking):
            for partition in held:
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def note_subscribed(self) -> None:
        """Recompute the topics that all members subscribe to, and forget unused regular expressions."""
        said = {(m.subscription.topics, m.subscription.regex) for m in self.members.values()}
        wanted = {regex for _, regex in said if regex is not None}
        for regex in self.regexes.keys() - wanted:
            del self.regexes[regex]
        subscribed = frozenset(name for topics, regex in said for name in self.names_of(topics, regex))
        if subscribed != self.subscribed:
            self.subscribed, self.looked_at = subscribed, -1

    def names_of(self, topics: tuple[str, ...], regex: str | None) -> frozenset[str]:
        """Return the topics that a subscription matches now."""
        resolved = None if regex is None else self.regexes.get(regex)
        return frozenset(topics) if resolved is None else frozenset(topics) | frozenset(resolved.topics)

    def resolve(self, regex: str, resolved: ResolvedRegex) -> None:
        """Store the topics that a regular expression matches."""
        self.regexes[regex] = resolved
        self.note_subscribed()

    def may_give(self, partition: Partition, member_id: str) -> bool:
        """Return whether no other member may be reading the partition."""
        return self.owners.get(partition, member_id) == member_id

    def target_of(self, member_id: str) -> frozenset[Partition]:
        """Return the member's partitions in the target."""
        return self.target.get(member_id, NOTHING)

    def waits_in_vain(self, member: ConsumerMember) -> bool:
        """Return whether other members still own everything that the member waits for."""
        return not any(
            partition not in member.assigned and partition not in self.owners
            for partition in self.target_of(member.member_id)
        )

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members prefer; the alphabetically first wins a tie."""
        votes = Counter(
            member.subscription.assignor for member in self.members.values() if member.subscription.assignor is not None
        )
        return min(votes, key=lambda name: (-votes[name], name), default=default)

    def member(self, member_id: str) -> ConsumerMember:
        """Return an existing member. Raise KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")
        return member

    def instance(self, instance_id: str, member_id: str) -> ConsumerMember:
        """Return the member with this instance id. Raise KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        known = self.instances.get(instance_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no instance {instance_id}.")
        if known != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Member {known} has taken the place of {member_id} as instance {instance_id}.",
            )
        return self.members[known]

    # --- classic members ----------------------------------------------------------------------------------------------

    @property
    def all_classic(self) -> bool:
        """Whether the group has members and all of them use the classic protocol."""
        return bool(self.members) and all(member.is_classic for member in self.members.values())

    def classic_sides(self) -> dict[str, ClassicSide]:
        """Return the classic protocol data of the classic members, by member id."""
        return {
            member_id: side
            for member_id, member in self.members.items()
            if (side := member.subscription.classic) is not None
        }
