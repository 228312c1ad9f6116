"""One share group (KIP-932): epochs, members, target assignment. Data structures only: no IO, no clock, no timers.

    member joins, leaves, changes its topics, a topic changes ──► group epoch + 1
    group epoch > target epoch ──► a new target assignment at the group epoch (`assignor`)
    a member's heartbeat       ──► the member gets its target assignment

Several members may read a partition, so members do not wait for each other. A partition is assigned only after its
share state has been initialized.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from pybroker.broker.coordinators.group_base.epoch_group import EpochGroup
from pybroker.broker.coordinators.group_base.group_registry import GroupKind, is_not, not_found
from pybroker.broker.coordinators.group_base.requests import CommitRequest
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.native import Uuid

Partition = tuple[Uuid, int]
"""A partition of one incarnation of a topic."""


class ShareGroupState(StrEnum):
    """The states, spelt as in ShareGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroupMember(msgspec.Struct, frozen=True):
    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    """Topic names, sorted."""
    epoch: int = 0
    previous_epoch: int = -1
    assigned: frozenset[Partition] = frozenset()

    def moved_to(self, epoch: int, assigned: frozenset[Partition]) -> ShareGroupMember:
        """Return the member in another epoch, or with other partitions in the same epoch.

        Keep the previous epoch, because the member repeats it if it loses the response with the new epoch.
        """
        if epoch == self.epoch and assigned == self.assigned:
            return self
        previous = self.previous_epoch if epoch == self.epoch else self.epoch
        return msgspec.structs.replace(self, epoch=epoch, previous_epoch=previous, assigned=assigned)


class TopicState(msgspec.Struct, frozen=True):
    """Partitions of a topic whose share state exists or is being initialized."""

    name: str
    partitions: frozenset[int]


class ShareGroup(EpochGroup[ShareGroupMember, frozenset[Partition]]):
    """One share group. It has no committed offsets. It does not expire, because its share state stays until the group
    is deleted."""

    kind = GroupKind.SHARE
    expires = False

    initializing: dict[Uuid, TopicState] = msgspec.field(default_factory=dict)
    """Share states that are being initialized."""
    initialized: dict[Uuid, TopicState] = msgspec.field(default_factory=dict)
    deleting: dict[Uuid, str] = msgspec.field(default_factory=dict)
    """Names of topics whose share state is being deleted, because the topic was deleted or a client requested it. Their
    partitions are also in `initializing` and `initialized`."""

    @property
    def state(self) -> ShareGroupState:
        """The state that ShareGroupDescribe and ListGroups return."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def subscribed(self) -> frozenset[str]:
        """Names of all topics to which members subscribe."""
        return frozenset(name for member in self.members.values() for name in member.topics)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def check_commit(self, request: CommitRequest, topics: Topics) -> None:
        """Raise KafkaError GROUP_ID_NOT_FOUND: a share group has no committed offsets."""
        raise is_not(self.group_id, GroupKind.CONSUMER)

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Accept every client: the response contains no offsets."""

    def check_offset_deletion(self) -> None:
        """Raise KafkaError GROUP_ID_NOT_FOUND: a share group has no committed offsets."""
        raise not_found(self.group_id)

    # --- share states -------------------------------------------------------------------------------------------------

    def has_state(self, partition: Partition) -> bool:
        """Return whether the partition has an initialized share state that is not being deleted. Only then members may
        get the partition."""
        topic = self.initialized.get(partition[0])
        return topic is not None and partition[1] in topic.partitions and partition[0] not in self.deleting

    def missing(self, topics: Mapping[Uuid, tuple[str, int]]) -> dict[Uuid, TopicState]:
        """Return the partitions of these topics without a share state. Omit topics for which a share state is being
        initialized. `topics`: topic id → (name, partition count)."""
        found: dict[Uuid, TopicState] = {}
        for topic_id, (name, count) in topics.items():
            if topic_id in self.deleting:
                continue
            known: set[int] = set()
            for states in (self.initialized, self.initializing):
                if topic_id in states:
                    known |= states[topic_id].partitions
            if requested := frozenset(range(count)) - known:
                found[topic_id] = TopicState(name, requested)
        return found

    def begin(self, requested: Mapping[Uuid, TopicState]) -> None:
        """Note that share states are being initialized."""
        for topic_id, topic in requested.items():
            _add(self.initializing, topic_id, topic)

    def made(self, made: Mapping[Uuid, TopicState]) -> None:
        """Note that share states have been initialized."""
        for topic_id, topic in made.items():
            # If it is not, the share state was deleted during the initialization.
            if topic_id in self.initializing:
                self._is_there(topic_id, topic)

    def made_anew(self, made: Mapping[Uuid, TopicState]) -> None:
        """Note that the caller will initialize these share states even if they exist."""
        for topic_id, topic in made.items():
            self._is_there(topic_id, topic)

    def _is_there(self, topic_id: Uuid, topic: TopicState) -> None:
        left = self.initializing.get(topic_id)
        if left is not None:
            rest = left.partitions - topic.partitions
            if rest:
                self.initializing[topic_id] = msgspec.structs.replace(left, partitions=rest)
            else:
                del self.initializing[topic_id]
        _add(self.initialized, topic_id, topic)

    def known_partitions(self, topic_id: Uuid) -> frozenset[int]:
        """Return a topic's partitions whose share state exists or is being initialized."""
        found = (states[topic_id].partitions for states in (self.initialized, self.initializing) if topic_id in states)
        return frozenset[int]().union(*found)

    def mark_deleting(self, topic_id: Uuid) -> None:
        """Mark the share states of a topic for deletion."""
        known = self.initialized.get(topic_id) or self.initializing.get(topic_id)
        if known is not None:
            self.deleting[topic_id] = known.name

    def unfinished_partitions(self, topic_id: Uuid) -> frozenset[int]:
        """Return a topic's partitions whose share state is still being initialized."""
        ready = self.initialized.get(topic_id)
        known = self.known_partitions(topic_id)
        return known if ready is None else known - ready.partitions

    def forget_partitions(self, topic_id: Uuid, partitions: frozenset[int]) -> None:
        """Forget deleted share states of a topic."""
        self.deleting.pop(topic_id, None)
        for states in (self.initializing, self.initialized):
            known = states.pop(topic_id, None)
            if known is not None and (rest := known.partitions - partitions):
                states[topic_id] = msgspec.structs.replace(known, partitions=rest)


def _add(states: dict[Uuid, TopicState], topic_id: Uuid, topic: TopicState) -> None:
    known = states.get(topic_id)
    if known is not None:
        topic = msgspec.structs.replace(topic, partitions=topic.partitions | known.partitions)
    states[topic_id] = topic
