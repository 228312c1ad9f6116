"""The life of a deletion, stored at each step so that a controller change or a crash loses nothing (X20).

    deleting   the multi that freed the name wrote the record; StopReplica is on its way to the replicas
    staged     every replica has confirmed that its data lies in `deleting/`; it stays until `remove_after_ms`
    removed    the data is gone on every broker; the record stays as a tombstone, the proof that the id is dead

Legal moves here: deleting → staged → removed, and deleting → removed for a topic whose replicas held nothing; the way
back to life is in `undelete`. A deletion in the format from before topic ids (`by_order`) gives the name up with its
first move: the topic's node and the order in `/admin/delete_topics` go then (checklist 120). The oldest tombstones go
when there are more than `topic.history.max.incarnations`: a replica of theirs that turns up later is kept aside for
the operator, because without a tombstone nothing proves that its topic was deleted.
"""

from __future__ import annotations

import msgspec

from pybroker.controller.decision import Decision
from pybroker.controller.events import AdvanceDeletions
from pybroker.controller.topics import name_operations
from pybroker.metadata import znodes
from pybroker.metadata.deletion_records import (
    DELETING,
    LIVE,
    REMOVED,
    STAGED,
    UNDELETING,
    DeletionRecord,
    forget_operations,
    write_operations,
)
from pybroker.metadata.image import ClusterImage, ImageDelta
from pybroker.metadata.store import Delete, Operation
from pybroker.native import Uuid

TOMBSTONES_MAX = 10_000
"""Unless the broker's settings say otherwise."""

_MOVES: dict[str, tuple[str, ...]] = {
    DELETING: (STAGED, REMOVED),
    STAGED: (REMOVED,),
    UNDELETING: (),
    LIVE: (),
    REMOVED: (),
}


def decide_advance(image: ClusterImage, event: AdvanceDeletions) -> Decision:
    """Moves deletions on; what is not a legal move (a late confirmation) is passed over."""
    moved: dict[Uuid, DeletionRecord] = {}
    for state, ids in ((STAGED, event.staged), (REMOVED, event.removed)):
        for topic_id in ids:
            record = moved.get(topic_id) or image.deletions.get(topic_id)
            if record is not None and state in _MOVES[record.state]:
                moved[topic_id] = _moved(record, state)
    operations: list[Operation] = []
    for topic_id, record in moved.items():
        before = image.deletions[topic_id]
        moved[topic_id], written = write_operations(before, record)
        operations += written
        if before.by_order:
            operations += name_operations(record.topic, len(record.partitions))
            operations.append(Delete(znodes.old_deletion_path(record.topic)))
    forgotten = _oldest_tombstones({**image.deletions, **moved}, event.tombstones_max)
    for record in forgotten:
        operations += forget_operations(record)
    gone = frozenset(record.topic_id for record in forgotten)
    kept = tuple(record for record in moved.values() if record.topic_id not in gone)
    return Decision(tuple(operations), ImageDelta(deletions=kept, forgotten_deletions=tuple(gone)), None)


def _moved(record: DeletionRecord, state: str) -> DeletionRecord:
    # A tombstone needs no offsets, unless its successor still waits for them.
    offsets = record.offsets if state != REMOVED or record.offsets_for is not None else ()
    return msgspec.structs.replace(record, state=state, offsets=offsets, by_order=False)


def _oldest_tombstones(records: dict[Uuid, DeletionRecord], tombstones_max: int) -> list[DeletionRecord]:
    dead = [record for record in records.values() if record.state == REMOVED and record.offsets_for is None]
    surplus = len(dead) - tombstones_max
    if surplus <= 0:
        return []
    dead.sort(key=lambda record: record.deleted_ms)
    return dead[:surplus]
