"""A topic's history: its creator, its deletions and undeletes, and its own leader epochs. It is stored in
`/admin/lineage/[topic id]` while the topic is live, and in the deletion record afterwards.

A topic that was created before pybroker stored histories has no such znode. Its history is the default: the creator is
unknown, and any leader epoch may belong to it.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata import znodes

CREATED = "create"
AUTO_CREATED = "auto-create"
"""The topic was created automatically, because a client used its name (`auto.create.topics.enable`)."""
DELETED = "delete"
TRUNCATED = "truncate"
UNDELETED = "undelete"
PURGED = "purge"

BEGINNINGS = (CREATED, AUTO_CREATED, TRUNCATED)
"""Events that begin a topic's history."""

EVENTS_MAX = 100
"""Limit of events per topic; the latest are kept. Each event is a deletion or undelete by an operator."""


class TopicEvent(msgspec.Struct, frozen=True, gc=False):
    """An event in an incarnation's history."""

    what: str
    """create, auto-create, delete, truncate (of the old or of the new incarnation), undelete or purge."""
    at_ms: int
    by: str
    """A principal, or a component of pybroker. For an automatic creation, also the client's id and address."""
    name: str
    """The topic's name at that time."""


class TopicLineage(msgspec.Struct, frozen=True):
    """The history of one incarnation."""

    events: tuple[TopicEvent, ...] = ()
    first_epoch: int = 0
    """The first leader epoch since the creation or the last undelete."""
    lives: tuple[tuple[int, int], ...] = ()
    """(first, last) leader epoch of each earlier period that ended with a deletion. If the incarnation continues the
    offsets of another incarnation, the periods of that one are included."""
    start_offsets: tuple[int, ...] = ()
    """Log start offset by partition, if the logs continue the offsets of an earlier incarnation."""

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})

    @property
    def empty(self) -> bool:
        """Whether the history is the default history, which needs no znode."""
        return self == _NOTHING

    @property
    def created_ms(self) -> int | None:
        """Wall time of the creation; None if the topic is older than stored histories."""
        first = self.events[0] if self.events else None
        return first.at_ms if first is not None and first.what in BEGINNINGS else None

    @property
    def living_since_ms(self) -> int | None:
        """Wall time of the creation or last undelete; None if the topic is older than stored histories."""
        return self.events[-1].at_ms if self.events else None

    def owns_epoch(self, epoch: int) -> bool:
        """Return whether a leader epoch can belong only to this incarnation of the name."""
        return epoch >= self.first_epoch or any(first <= epoch <= last for first, last in self.lives)

    def proves(self, epoch: int) -> bool:
        """Return whether a client that sends this leader epoch with the current name means this incarnation. An epoch
        from before a rename proves nothing, because leader epochs belong to a name: another topic may have had the
        epoch under this name."""
        if self.first_epoch <= 0 or not self.owns_epoch(epoch):
            return False
        return epoch >= self.first_epoch or len({event.name for event in self.events}) <= 1

    @property
    def had_name_alone(self) -> bool:
        """Return whether no other incarnation can have had this topic's name. This is so if all leader epochs of the
        name so far belong to this topic, and the topic had no other name. Epoch 0 alone is not enough: another
        incarnation may have existed between the topic's deletion and its undelete."""
        next_epoch = 0
        for first, last in sorted(self.lives):
            if first > next_epoch:
                return False
            next_epoch = max(next_epoch, last + 1)
        return self.first_epoch <= next_epoch and len({event.name for event in self.events}) <= 1

    def start_offset(self, partition: int) -> int:
        """Return the log start offset of a new partition."""
        return self.start_offsets[partition] if partition < len(self.start_offsets) else 0

    def with_event(self, event: TopicEvent) -> TopicLineage:
        """Return the lineage with another event. The first event, the creation, always stays."""
        events = (*self.events, event)
        if len(events) > EVENTS_MAX:
            events = (events[0], *events[-(EVENTS_MAX - 1) :])
        return msgspec.structs.replace(self, events=events)

    def ended(self, last_epoch: int) -> TopicLineage:
        """Return the lineage after a deletion. `last_epoch`: the last leader epoch before the deletion. The next period
        begins with `resumed`."""
        if last_epoch < self.first_epoch:
            return self
        return msgspec.structs.replace(self, lives=(*self.lives, (self.first_epoch, last_epoch)))

    def resumed(self, first_epoch: int) -> TopicLineage:
        """Return the lineage after an undelete. Its next period starts with the leader epoch `first_epoch`."""
        return msgspec.structs.replace(self, first_epoch=first_epoch)


_NOTHING = TopicLineage()


def decode_lineage(path: str, data: bytes) -> TopicLineage:
    """Return the lineage in a znode. Raises DamagedNodeError."""
    lineage: TopicLineage = znodes.decode_json(path, data, TopicLineage)
    return lineage
