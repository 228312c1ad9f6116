"""The life of a deletion, stored at each step so that a controller change or a crash loses nothing (X20).

    deleting   the multi that freed the name wrote the record; StopReplica is on its way to the replicas
    staged     every replica has confirmed that its data lies in `deleting/`; it stays until `remove_after_ms`
    removed    the data is gone on every broker; the record stays as a tombstone, the proof that the id is dead

Legal moves: deleting → staged → removed, and deleting → removed for a topic whose replicas held nothing. The oldest
tombstones go when there are more than TOMBSTONES_MAX: a replica of theirs that turns up later is kept aside for the
operator, because without a tombstone nothing proves that its topic was deleted.
"""

from __future__ import annotations

import msgspec

from pybroker.controller.decision import Decision
from pybroker.controller.events import AdvanceDeletions
from pybroker.metadata import znodes
from pybroker.metadata.image import ClusterImage, ImageDelta
from pybroker.metadata.store import Delete, Operation, Set
from pybroker.metadata.znodes import DELETING, REMOVED, STAGED_STATE, DeletionRecord
from pybroker.native import Uuid

TOMBSTONES_MAX = 10_000

_MOVES = {DELETING: (STAGED_STATE, REMOVED), STAGED_STATE: (REMOVED,), REMOVED: ()}


def decide_advance(image: ClusterImage, event: AdvanceDeletions) -> Decision:
    """Moves deletions on; what is not a legal move (a late confirmation) is passed over."""
    moved: dict[Uuid, DeletionRecord] = {}
    for state, ids in ((STAGED_STATE, event.staged), (REMOVED, event.removed)):
        for topic_id in ids:
            record = moved.get(topic_id) or image.deletions.get(topic_id)
            if record is not None and state in _MOVES[record.state]:
                moved[topic_id] = msgspec.structs.replace(record, state=state)
    operations: list[Operation] = [
        Set(znodes.deletion_path(topic_id), record.encode()) for topic_id, record in moved.items()
    ]
    forgotten = _oldest_tombstones(image, moved)
    operations += [Delete(znodes.deletion_path(topic_id)) for topic_id in forgotten]
    kept = tuple(record for record in moved.values() if record.topic_id not in forgotten)
    return Decision(tuple(operations), ImageDelta(deletions=kept, forgotten_deletions=forgotten), None)


def _oldest_tombstones(image: ClusterImage, moved: dict[Uuid, DeletionRecord]) -> tuple[Uuid, ...]:
    dead = [record for record in {**image.deletions, **moved}.values() if record.state == REMOVED]
    surplus = len(dead) - TOMBSTONES_MAX
    if surplus <= 0:
        return ()
    dead.sort(key=lambda record: record.deleted_ms)
    return tuple(record.topic_id for record in dead[:surplus])
