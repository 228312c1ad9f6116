"""A topic's history: its creator, its deletions and undeletes, and its own leader epochs. It is in
`/admin/lineage/[topic id]` while the topic is live, and in the deletion record afterwards.

If a topic has no such node, because it was created before pybroker kept histories, it has the default: no known
creator, and every epoch may be its own.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata import znodes

CREATED = "create"
AUTO_CREATED = "auto-create"
"""The topic was created because a client used the name (`auto.create.topics.enable`)."""
DELETED = "delete"
TRUNCATED = "truncate"
UNDELETED = "undelete"
PURGED = "purge"

BEGINNINGS = (CREATED, AUTO_CREATED, TRUNCATED)
"""First events of a topic that begin its history."""

EVENTS_MAX = 100
"""Limit of events of one topic; the latest are kept. Each is an operator's deletion or undelete."""


class TopicEvent(msgspec.Struct, frozen=True, gc=False):
    """An event in an incarnation's history."""

    what: str
    """create, auto-create, delete, truncate (as old or as new incarnation), undelete or purge."""
    at_ms: int
    by: str
    """A principal, or a component of pybroker. For an automatic creation, also the client's id and address."""
    name: str
    """The topic's name at that time."""


class TopicLineage(msgspec.Struct, frozen=True):
    """The history of one incarnation."""

    events: tuple[TopicEvent, ...] = ()
    first_epoch: int = 0
    """The first leader epoch since its creation or last undelete."""
    lives: tuple[tuple[int, int], ...] = ()
    """First and last leader epoch of each earlier period that ended with a deletion. If the incarnation continues the
    offsets of another, the periods of that one are included.
    """
    start_offsets: tuple[int, ...] = ()
    """By partition: where the log starts, if it continues the offsets of an earlier incarnation."""

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})

    @property
    def empty(self) -> bool:
        """Whether the history is the default, so that it needs no node."""
        return self == _NOTHING

    @property
    def created_ms(self) -> int | None:
        """When the topic was created; None if pybroker did not keep histories yet at that time."""
        first = self.events[0] if self.events else None
        return first.at_ms if first is not None and first.what in BEGINNINGS else None

    @property
    def living_since_ms(self) -> int | None:
        """When the topic was created or last undeleted; None if pybroker did not keep histories yet at that time."""
        return self.events[-1].at_ms if self.events else None

    def owns_epoch(self, epoch: int) -> bool:
        """Return whether a leader epoch can belong to this incarnation and to no other incarnation of the name."""
        return epoch >= self.first_epoch or any(first <= epoch <= last for first, last in self.lives)

    def proves(self, epoch: int) -> bool:
        """Return whether a client that sends this leader epoch with the present name means this incarnation. An epoch
        from before a rename proves nothing: leader epochs belong to a name, and another topic may have had the same
        epoch under this name.
        """
        if self.first_epoch <= 0 or not self.owns_epoch(epoch):
            return False
        return epoch >= self.first_epoch or len({event.name for event in self.events}) <= 1

    @property
    def had_name_alone(self) -> bool:
        """Whether no other incarnation can have had its name: all leader epochs of the name so far are its own, and it
        had no other name. That it has epoch 0 is not sufficient: between its deletion and its undelete, another
        incarnation may have existed.
        """
        next_epoch = 0
        for first, last in sorted(self.lives):
            if first > next_epoch:
                return False
            next_epoch = max(next_epoch, last + 1)
        return self.first_epoch <= next_epoch and len({event.name for event in self.events}) <= 1

    def start_offset(self, partition: int) -> int:
        """Return the log start of a new partition."""
        return self.start_offsets[partition] if partition < len(self.start_offsets) else 0

    def with_event(self, event: TopicEvent) -> TopicLineage:
        """Return the lineage with another event. The first event, the creation, is always kept."""
        events = (*self.events, event)
        if len(events) > EVENTS_MAX:
            events = (events[0], *events[-(EVENTS_MAX - 1) :])
        return msgspec.structs.replace(self, events=events)

    def ended(self, last_epoch: int) -> TopicLineage:
        """Return the lineage after a deletion. `last` is the last leader epoch; the next period begins at `resumed`."""
        if last_epoch < self.first_epoch:
            return self
        return msgspec.structs.replace(self, lives=(*self.lives, (self.first_epoch, last_epoch)))

    def resumed(self, first_epoch: int) -> TopicLineage:
        """Return the lineage after an undelete, with higher leader epochs."""
        return msgspec.structs.replace(self, first_epoch=first_epoch)


_NOTHING = TopicLineage()


def decode_lineage(path: str, data: bytes) -> TopicLineage:
    """Return the lineage in a node. Raises DamagedNodeError."""
    lineage: TopicLineage = znodes.decode_json(path, data, TopicLineage)
    return lineage
