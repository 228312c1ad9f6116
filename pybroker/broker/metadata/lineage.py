"""What is kept of a topic beside what it is now: who made it and how, what has happened to it, and which leader epochs
are its own. `/admin/lineage/[topic id]` while it lives; its deletion record has it afterwards.

A topic without the node (from before it existed) has the default: nobody is known, and every epoch may be its own.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.metadata import znodes

CREATED = "create"
AUTO_CREATED = "auto-create"
"""By a client that asked for the name, where `auto.create.topics.enable` allows that."""
DELETED = "delete"
TRUNCATED = "truncate"
UNDELETED = "undelete"
PURGED = "purge"

BEGINNINGS = (CREATED, AUTO_CREATED, TRUNCATED)
"""First events of a topic that begin its history."""

EVENTS_MAX = 100
"""Events that are kept of one topic, the latest: each is a deletion or an undeletion, which are an operator's work."""


class TopicEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that happened to an incarnation."""

    what: str
    """create, auto-create, delete, truncate (as old or as new incarnation), undelete or purge."""
    at_ms: int
    by: str
    """A principal, or what of pybroker did it; of an automatic creation also the client's id and address."""
    name: str
    """What it was called then."""


class TopicLineage(msgspec.Struct, frozen=True):
    """See the module."""

    events: tuple[TopicEvent, ...] = ()
    first_epoch: int = 0
    """The leader epoch with which its present life began."""
    lives: tuple[tuple[int, int], ...] = ()
    """First and last leader epoch of its lives before: those that a deletion ended, and those of the incarnation whose
    offsets it continues."""
    start_offsets: tuple[int, ...] = ()
    """By partition: where its log begins, if it continues the offsets of an earlier incarnation."""

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})

    @property
    def empty(self) -> bool:
        """Whether there is nothing that a node would have to keep."""
        return self == _NOTHING

    @property
    def created_ms(self) -> int | None:
        """When it was made; None if that was before histories were kept."""
        first = self.events[0] if self.events else None
        return first.at_ms if first is not None and first.what in BEGINNINGS else None

    @property
    def living_since_ms(self) -> int | None:
        """When its present life began: it was made, or undeleted; None if that was before histories were kept."""
        return self.events[-1].at_ms if self.events else None

    def owns_epoch(self, epoch: int) -> bool:
        """Whether a leader epoch can belong to this incarnation, and not to another one of its name."""
        return epoch >= self.first_epoch or any(first <= epoch <= last for first, last in self.lives)

    def start_offset(self, partition: int) -> int:
        """Where the log of a partition begins when it is new."""
        return self.start_offsets[partition] if partition < len(self.start_offsets) else 0

    def with_event(self, event: TopicEvent) -> TopicLineage:
        """The lineage after something happened. The first event, how it was made, is always kept."""
        events = (*self.events, event)
        if len(events) > EVENTS_MAX:
            events = (events[0], *events[-(EVENTS_MAX - 1) :])
        return msgspec.structs.replace(self, events=events)

    def ended(self, last_epoch: int) -> TopicLineage:
        """Its life ends with this leader epoch; the next begins with `resumed`."""
        if last_epoch < self.first_epoch:
            return self
        return msgspec.structs.replace(self, lives=(*self.lives, (self.first_epoch, last_epoch)))

    def resumed(self, first_epoch: int) -> TopicLineage:
        """It lives again, with higher leader epochs."""
        return msgspec.structs.replace(self, first_epoch=first_epoch)


_NOTHING = TopicLineage()


def decode_lineage(path: str, data: bytes) -> TopicLineage:
    """Raises DamagedNodeError."""
    lineage: TopicLineage = znodes.decode_json(path, data, TopicLineage)
    return lineage
