"""Outcomes of transactions that wrote to topics which were deleted afterwards. Pure.

The transaction coordinator treats partitions of deleted topics as finished, and the deletion record stores the
transaction's outcome. After an undelete, the partition leaders write the missing transaction markers before clients see
the topic (`coordinators.transaction.dead_topics`), and report the written markers to the controller.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import KeepOutcome, OutcomesWritten
from pybroker.broker.controller.decision import Decision, Steps, decides, nothing
from pybroker.broker.metadata.deletion_records import (
    LIVE,
    OUTCOMES_MAX,
    REMOVED,
    DeletionRecord,
    TransactionOutcome,
    forget_operations,
    write_operations,
)
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import Uuid


@decides(KeepOutcome)
def decide_keep(image: ClusterImage, event: KeepOutcome) -> Decision:
    """Record the transaction's outcome in the deletion record of each topic that can still be undeleted."""
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, partition in event.partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    live = tuple(topic_id for topic_id in by_topic if image.topic_by_id(topic_id) is not None)
    steps = Steps()
    kept: list[DeletionRecord] = []
    warnings: list[str] = []
    for topic_id, partitions in by_topic.items():
        record = image.deletions.get(topic_id)
        if topic_id in live or record is None or record.closed or record.state == REMOVED:
            continue
        outcome = TransactionOutcome(
            event.producer_id,
            event.producer_epoch,
            event.coordinator_epoch,
            event.committed,
            event.version,
            tuple(sorted(partitions)),
        )
        others = tuple(other for other in record.outcomes if not _is_of(other, outcome))
        if sum(len(kept_outcome.partitions) for kept_outcome in (*others, outcome)) > OUTCOMES_MAX:
            warnings.append(
                f"the deletion record of topic '{record.topic}' (id {topic_id}) is full: an undelete of the topic "
                f"brings back the transaction of producer {event.producer_id} as open, and an operator must end it"
            )
            continue
        after, written = write_operations(record, msgspec.structs.replace(record, outcomes=(*others, outcome)))
        steps.add([written])
        kept.append(after)
    return Decision(
        tuple(steps.operations),
        ImageDelta(deletions=tuple(kept)),
        live,
        seams=tuple(steps.seams),
        warnings=tuple(warnings),
    )


def _is_of(one: TransactionOutcome, other: TransactionOutcome) -> bool:
    return (one.producer_id, one.producer_epoch) == (other.producer_id, other.producer_epoch)


@decides(OutcomesWritten)
def decide_written(image: ClusterImage, event: OutcomesWritten) -> Decision:
    """Remove written markers from the record of an undeleted topic. Remove the record when it contains nothing else."""
    record = image.deletions.get(event.topic_id)
    if record is None or record.state != LIVE or not record.outcomes:
        return nothing(None)
    done = set(event.partitions)
    left = (
        msgspec.structs.replace(outcome, partitions=tuple(index for index in outcome.partitions if index not in done))
        for outcome in record.outcomes
    )
    outcomes = tuple(outcome for outcome in left if outcome.partitions)
    if not outcomes and record.offsets_for is None:
        return Decision(tuple(forget_operations(record)), ImageDelta(forgotten_deletions=(record.topic_id,)), None)
    after, operations = write_operations(record, msgspec.structs.replace(record, outcomes=outcomes))
    return Decision(tuple(operations), ImageDelta(deletions=(after,)), None)
