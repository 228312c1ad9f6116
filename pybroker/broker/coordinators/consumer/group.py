"""One consumer group: epochs, members, the target. Pure data and its bookkeeping; no IO, no clock, no timers.

    member joins, leaves, says something new, a topic changes ──► epoch + 1
    epoch > target epoch                                      ──► a new target at that epoch (`assignment`)
    a member's heartbeat                                      ──► one step towards the target (`reconciliation`)

A partition has at most one owner: who was given it keeps it until it has said that it gave it back, or is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pybroker.broker.coordinators.consumer.model import ClassicSide, GroupState, Member, Partition, Resolved
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NOTHING: frozenset[Partition] = frozenset()


class ConsumerGroup:
    """See the module. What is in its dictionaries is immutable: a `fork` is changed and put in place of the original
    when the change is on disk.
    """

    def __init__(self, group_id: str, life: object | None = None) -> None:
        self.group_id = group_id
        self.life = object() if life is None else life
        """The same while the group lives, also when it changes its protocol."""
        self.epoch = 0
        self.topics_hash = 0
        """Of the topics that members subscribe to, with their partitions; 0: none."""
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.target: dict[str, frozenset[Partition]] = {}
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """group.instance.id → member id."""
        self.owners: dict[Partition, str] = {}
        """Partition → who may be reading it."""
        self.regexes: dict[str, Resolved] = {}
        self.looked_at = -1
        """Version of the broker's view of topics that the epoch takes into account; −1: none."""
        self.subscribed: frozenset[str] = frozenset()
        """Names of all topics that members subscribe to, by name or by expression."""
        self.successor: Mapping[bytes, bytes | None] | None = None
        """What is stored in place of the group when it becomes one of another protocol; None: it stays."""

    def fork(self) -> ConsumerGroup:
        """A copy to be changed."""
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
        """Takes over everything of a copy."""
        self.__dict__.update(other.__dict__)

    @property
    def state(self) -> GroupState:
        """What tools are shown."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(member.is_settled(self.target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def is_subscribed_to(self, topic: str) -> bool:
        """Members may be reading it."""
        return topic in self.subscribed

    # --- members ------------------------------------------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """Takes a member in, or in place of what was known of it."""
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
        """Forgets a member; what it had is free."""
        member = self.members.pop(member_id)
        self.target.pop(member_id, None)
        self._release(member)
        self.note_subscribed()

    def _release(self, member: Member) -> None:
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        for held in (member.assigned, member.revoking):
            for partition in held:
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def note_subscribed(self) -> None:
        """Finds out which topics all members mean together, and forgets expressions that nobody uses."""
        said = {(m.subscription.topics, m.subscription.regex) for m in self.members.values()}
        wanted = {regex for _, regex in said if regex is not None}
        for regex in self.regexes.keys() - wanted:
            del self.regexes[regex]
        subscribed = frozenset(name for topics, regex in said for name in self.names_of(topics, regex))
        if subscribed != self.subscribed:
            self.subscribed, self.looked_at = subscribed, -1

    def names_of(self, topics: tuple[str, ...], regex: str | None) -> frozenset[str]:
        """The topics that a subscription means now."""
        resolved = None if regex is None else self.regexes.get(regex)
        return frozenset(topics) if resolved is None else frozenset(topics) | frozenset(resolved.topics)

    def resolve(self, regex: str, resolved: Resolved) -> None:
        """Takes over what an expression matches."""
        self.regexes[regex] = resolved
        self.note_subscribed()

    def may_give(self, partition: Partition, member_id: str) -> bool:
        """Whether nobody else may be reading a partition."""
        return self.owners.get(partition, member_id) == member_id

    def target_of(self, member_id: str) -> frozenset[Partition]:
        """What the target gives a member."""
        return self.target.get(member_id, NOTHING)

    def waits_in_vain(self, member: Member) -> bool:
        """What the member waits for is still with others."""
        return not any(
            partition not in member.assigned and partition not in self.owners
            for partition in self.target_of(member.member_id)
        )

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for; the earlier name wins a tie."""
        votes = Counter(
            member.subscription.assignor for member in self.members.values() if member.subscription.assignor is not None
        )
        return min(votes, key=lambda name: (-votes[name], name), default=default)

    def member(self, member_id: str) -> Member:
        """A member that exists. KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}."
            )
        return member

    def instance(self, instance_id: str, member_id: str) -> Member:
        """The member that goes by this instance id. KafkaError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
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
        """It has members, and none of them speaks the newer protocol."""
        return bool(self.members) and all(member.is_classic for member in self.members.values())

    def classic_sides(self) -> dict[str, ClassicSide]:
        """Of the members that speak the classic protocol, by member id."""
        return {
            member_id: side
            for member_id, member in self.members.items()
            if (side := member.subscription.classic) is not None
        }
