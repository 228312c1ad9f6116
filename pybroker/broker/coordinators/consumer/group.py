"""One consumer group: epochs, members, target assignment. Data structures only: no IO, no clock, no timers.

    member joins, leaves, changes its subscription, a topic changes ──► group epoch + 1
    group epoch > target epoch ──► a new target assignment at the group epoch (`assignment`)
    a member's heartbeat       ──► one step towards its target assignment (`reconciliation`)

A partition has at most one owner: a member owns it until it confirms the revocation or is removed.
"""

from __future__ import annotations

import math
from collections import Counter

import msgspec

from pybroker.broker.coordinators.consumer.model import (
    ClassicSide,
    ConsumerGroupState,
    ConsumerMember,
    Partition,
    ResolvedRegex,
)
from pybroker.broker.coordinators.group_base.epoch_group import EpochGroup
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.group_base.removals import Removals
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

NOTHING: frozenset[Partition] = frozenset()


class ConsumerGroup(EpochGroup[ConsumerMember, frozenset[Partition]]):
    kind = GroupKind.CONSUMER

    owners: dict[Partition, str] = msgspec.field(default_factory=dict)
    """Partition → the member that may be reading it."""
    regexes: dict[str, ResolvedRegex] = msgspec.field(default_factory=dict)
    subscribed: frozenset[str] = frozenset()
    """Names of all topics to which members subscribe, by name or by regular expression."""

    @property
    def state(self) -> ConsumerGroupState:
        """The state that ConsumerGroupDescribe and ListGroups return."""
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
        """Recompute the set of topics to which members subscribe. Remove regular expressions that no member uses."""
        subscriptions = {(m.subscription.topics, m.subscription.regex) for m in self.members.values()}
        used = {regex for _, regex in subscriptions if regex is not None}
        for regex in self.regexes.keys() - used:
            del self.regexes[regex]
        subscribed = frozenset(name for topics, regex in subscriptions for name in self.names_of(topics, regex))
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
        """Return whether a member may get the partition, because no other member may still be reading it."""
        return self.owners.get(partition, member_id) == member_id

    def target_of(self, member_id: str) -> frozenset[Partition]:
        """Return the member's target assignment."""
        return self.target.get(member_id, NOTHING)

    def waits_in_vain(self, member: ConsumerMember) -> bool:
        """Return whether the member waits for partitions that other members all still own."""
        return not any(
            partition not in member.assigned and partition not in self.owners
            for partition in self.target_of(member.member_id)
        )

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members prefer. In a tie, return the alphabetically first."""
        votes = Counter(
            member.subscription.assignor for member in self.members.values() if member.subscription.assignor is not None
        )
        return min(votes, key=lambda name: (-votes[name], name), default=default)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def has_epoch(self, member: ConsumerMember) -> bool:
        """Return whether the member uses the consumer protocol."""
        return not member.is_classic

    def check_instance(self, request: CommitRequest) -> None:
        """Check the instance id of a commit. Raise KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if request.instance_id is not None:
            self.instance(request.instance_id, request.member_id)

    def has_owned(self, member: ConsumerMember, request: CommitRequest, topics: Topics) -> bool:
        """Return whether the member owned the partitions of a commit in the commit's epoch, and still owns them."""
        since = {**member.assigned, **member.revoking}
        ids = (
            (item.topic_id or topics.topic_id(item.name or "") or Uuid.ZERO, item.partition) for item in request.items
        )
        return bool(request.items) and all(since.get(key, math.inf) <= request.generation for key in ids)

    def incarnation_error(
        self, request: CommitRequest, name: str, topic_id: Uuid, topics: Topics, removals: Removals
    ) -> ErrorCode | None:
        """Return UNKNOWN_TOPIC_OR_PARTITION (in a transaction ILLEGAL_GENERATION) if the topic's name had an earlier
        incarnation and the member owns no partition of the current incarnation.

        Consumers repeat a commit that gets STALE_MEMBER_EPOCH, and confirm a revocation only after its commit has
        ended. The member gets its next epoch only after it has confirmed the revocation. Producers repeat offsets that
        get UNKNOWN_TOPIC_OR_PARTITION.
        """
        member = self.members.get(request.member_id)
        if member is None or topics.had_name_alone(topic_id):
            return None
        holds = any(topic == topic_id for held in (member.assigned, member.revoking) for topic, _ in held)
        if holds:
            return None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if request.producer is None else ErrorCode.ILLEGAL_GENERATION

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
