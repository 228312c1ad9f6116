"""One share group (KIP-932): epochs, members, the target. Pure data and its bookkeeping; no IO, no clock, no timers.

    member joins, leaves, changes its topics, a topic changes ──► epoch + 1
    epoch > target epoch                                      ──► a new target at that epoch (`assignor`)
    a member's heartbeat                                      ──► the member gets its partitions of the target

Several members may read a partition, so members do not wait for each other. A partition is assigned only once its
share state is `initialized`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

Partition = tuple[Uuid, int]
"""A partition of one incarnation of a topic."""

JOINS, LEAVES = 0, -1


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

        Keep the previous epoch, because the response with the new one may be lost.
        """
        if epoch == self.epoch and assigned == self.assigned:
            return self
        previous = self.previous_epoch if epoch == self.epoch else self.epoch
        return msgspec.structs.replace(self, epoch=epoch, previous_epoch=previous, assigned=assigned)


class TopicState(msgspec.Struct, frozen=True):
    """Partitions of a topic whose share state exists or is being initialized."""

    name: str
    partitions: frozenset[int]


class ShareGroup(msgspec.Struct):
    """One share group. The values in its dictionaries are immutable.

    A caller changes a `fork` and installs it in place of the original once the change is durable.
    """

    group_id: str
    epoch: int = 0
    topics_hash: int = 0
    """Hash of the subscribed topics and their partition counts; 0: no topics."""
    target_epoch: int = 0
    target_timestamp_ms: int = 0
    target: dict[str, frozenset[Partition]] = {}
    members: dict[str, ShareGroupMember] = {}
    initializing: dict[Uuid, TopicState] = {}
    """Share states that are being initialized."""
    initialized: dict[Uuid, TopicState] = {}
    deleting: dict[Uuid, str] = {}
    """Names of topics whose share states are being deleted, after a topic's deletion or on request. `initializing` and
    `initialized` have their partitions."""
    looked_at: int = -1
    """Version of the broker's topic view that the epoch reflects; −1: none."""

    @property
    def successor(self) -> Mapping[bytes, bytes | None] | None:
        """None: a share group never changes its type."""
        return None

    def fork(self) -> ShareGroup:
        """Return a copy for changes."""
        return msgspec.structs.replace(
            self,
            target=dict(self.target),
            members=dict(self.members),
            initializing=dict(self.initializing),
            initialized=dict(self.initialized),
            deleting=dict(self.deleting),
        )

    @property
    def state(self) -> ShareGroupState:
        """The state that tools show."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def subscribed(self) -> frozenset[str]:
        """Names of all topics that members subscribe to."""
        return frozenset(name for member in self.members.values() for name in member.topics)

    def member(self, member_id: str) -> ShareGroupMember:
        """Return a member. Raise KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def require_empty(self) -> None:
        """Raise KafkaError NON_EMPTY_GROUP if the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} has members.")

    def has_state(self, partition: Partition) -> bool:
        """Return whether the partition's state is initialized and not being deleted; only then may members get it."""
        topic = self.initialized.get(partition[0])
        return topic is not None and partition[1] in topic.partitions and partition[0] not in self.deleting

    def missing(self, topics: Mapping[Uuid, tuple[str, int]]) -> dict[Uuid, TopicState]:
        """Return the partitions of these topics (name, partition count) without an existing or initializing state."""
        found: dict[Uuid, TopicState] = {}
        for topic_id, (name, count) in topics.items():
            if topic_id in self.deleting:
                continue
            known: set[int] = set()
            for states in (self.initialized, self.initializing):
                if topic_id in states:
                    known |= states[topic_id].partitions
            if wanted := frozenset(range(count)) - known:
                found[topic_id] = TopicState(name, wanted)
        return found

    def begin(self, wanted: Mapping[Uuid, TopicState]) -> None:
        """Note that states are being initialized."""
        for topic_id, topic in wanted.items():
            _add(self.initializing, topic_id, topic)

    def made(self, made: Mapping[Uuid, TopicState]) -> None:
        """Note that states are initialized."""
        for topic_id, topic in made.items():
            # Otherwise the state was deleted meanwhile.
            if topic_id in self.initializing:
                self._is_there(topic_id, topic)

    def made_anew(self, made: Mapping[Uuid, TopicState]) -> None:
        """Note that states will be initialized by the caller, whatever existed before."""
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
        """Return a topic's partitions whose state exists or is being initialized."""
        found = (states[topic_id].partitions for states in (self.initialized, self.initializing) if topic_id in states)
        return frozenset[int]().union(*found)

    def bury_topic(self, topic_id: Uuid) -> None:
        """Mark the states of a topic for deletion."""
        known = self.initialized.get(topic_id) or self.initializing.get(topic_id)
        if known is not None:
            self.deleting[topic_id] = known.name

    def unfinished_partitions(self, topic_id: Uuid) -> frozenset[int]:
        """Return a topic's partitions whose state is still being initialized."""
        ready = self.initialized.get(topic_id)
        known = self.known_partitions(topic_id)
        return known if ready is None else known - ready.partitions

    def forget_partitions(self, topic_id: Uuid, partitions: frozenset[int]) -> None:
        """Forget deleted states of a topic."""
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
