"""Decisions about staged ingests: begin, commit, end. Pure.

The commit is one multi. It checks the controller epoch and replaces the open record by the committed record. After this
multi, the commit is final even if processes crash: the brokers link the segments, and `FinishIngest` records the
segments' offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from pybroker.broker.cluster.events import (
    BeginIngest,
    CommitIngest,
    DropIngests,
    FinishIngest,
    LoseIngest,
    ReopenIngest,
    TouchIngests,
)
from pybroker.broker.cluster.lookup import unknown_topic
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.controller.leader_election import elect
from pybroker.broker.controller.partition_states import next_state, set_state, with_partitions
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.ingest_records import (
    COMMITTED,
    COMMITTING,
    LOST,
    OPEN,
    PENDING,
    IngestedPartition,
    IngestKey,
    IngestRecord,
    ingest_paths,
    series_of,
    topic_paths,
)
from pybroker.broker.metadata.metadata_store import VALUE_BYTES_MAX, Create, Delete, Operation, Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

EPOCH_MAX = INDEX_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1


@decides(BeginIngest)
def decide_begin_ingest(image: ClusterImage, event: BeginIngest) -> Decision:
    """Open an ingest. Return its open record, or its committed record if the ingest is already committed."""
    topic_id, ingest_id, batch_id = event.key
    if image.topic_by_id(topic_id) is None:
        raise unknown_topic(image, topic_id)
    done = image.commit_of(event.key)
    if done is not None:
        return nothing(done)
    _check_readable(image, event.key)
    known = image.ingests.get(event.key)
    if known is not None and event.join:
        return nothing(known)
    if known is None and len(image.ingests) >= event.open_max:
        raise KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{event.open_max} ingests are open already (ingest.open.max). Commit or abort one, then try again.",
        )
    if (
        known is None
        and series_of(event.key) not in image.committed_ingests
        and len(image.committed_ingests) + len(image.ingests) >= event.committed_max
    ):
        raise KafkaError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"{event.committed_max} ingests are open or remembered already (ingest.committed.max). The cluster "
            "forgets the ids of committed ingests after ingest.id.retention.ms.",
        )
    epoch = event.first_epoch if known is None else known.epoch % EPOCH_MAX + 1
    record = IngestRecord(topic_id, ingest_id, batch_id, epoch, OPEN, event.ttl_ms, event.now_ms, dict(event.config))
    _check_room(record, {INDEX_MAX: IngestedPartition(OFFSET_MAX, OFFSET_MAX)}, ErrorCode.INVALID_CONFIG)
    write: Operation = Create(record.path, record.encode()) if known is None else Set(record.path, record.encode())
    folder = _missing_folder(image, record)
    delta = ImageDelta(ingests=(record,), made_ingest_folders=folder)
    return Decision((*map(Create, folder), write), delta, record)


def _check_readable(image: ClusterImage, key: IngestKey) -> None:
    """Raise KafkaError if the record of this ingest id is damaged: the ingest may have been committed, and a second
    ingest would duplicate its records."""
    for path in ingest_paths(key):
        if path in image.damaged_ingests:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The record of the ingest with this id is damaged: {path}. Use another ingest id.",
            )


def _missing_folder(image: ClusterImage, record: IngestRecord) -> dict[str, Uuid]:
    """Return the parent node of a record, if this node does not exist yet."""
    return {} if record.folder in image.ingest_folders else {record.folder: record.topic_id}


def _check_room(record: IngestRecord, partitions: Mapping[int, IngestedPartition], code: ErrorCode) -> None:
    """Refuse an ingest whose record would exceed the store's size limit of a value, offsets included. Otherwise a
    committed ingest might not fit into the store."""
    widest = {
        index: msgspec.structs.replace(part, base_offset=OFFSET_MAX, end_offset=OFFSET_MAX)
        for index, part in partitions.items()
    }
    longest = msgspec.structs.replace(record, state=COMMITTING, committed_ms=OFFSET_MAX, partitions=widest)
    size = len(longest.encode())
    if size > VALUE_BYTES_MAX:
        raise KafkaError(
            code,
            f"The record of an ingest may take {VALUE_BYTES_MAX} bytes in the metadata store. With the topic's "
            f"settings and {len(partitions)} partition{'s' * (len(partitions) != 1)} it could take {size}.",
        )


@decides(CommitIngest)
def decide_commit_ingest(image: ClusterImage, event: CommitIngest) -> Decision:
    """Commit an ingest. Return the record. Its state is COMMITTING until all partitions have linked the segments."""
    done = image.commit_of(event.key)
    if done is not None:
        return nothing(done)
    _check_readable(image, event.key)
    known = image.ingests.get(event.key)
    if known is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "The ingest is not open.")
    if known.epoch != event.epoch:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED, f"Epoch {event.epoch} of the ingest is obsolete: epoch {known.epoch} has begun."
        )
    if image.topic_by_id(known.topic_id) is None:
        raise unknown_topic(image, known.topic_id)
    if known.reopened != event.reopened:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, "Another commit of this ingest failed at the same time. Send the commit again."
        )
    _check_states(image, known.topic_id, event.versions or {})
    before = image.committed_ingests.get(known.series)
    if before is not None and before.state == COMMITTING:
        raise KafkaError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"Batch {before.batch_id} of this stream is still being committed. Try again later.",
        )
    partitions = {index: IngestedPartition(rows, size) for index, (rows, size) in event.partitions.items()}
    _check_room(known, partitions, ErrorCode.INVALID_REQUEST)
    record = msgspec.structs.replace(
        known, state=COMMITTING, committed_ms=event.now_ms, partitions=partitions, plan=event.plan
    )
    if not partitions:
        record = record.committed()
    data = record.encode()
    write: Operation = Create(record.path, data) if before is None else Set(record.path, data)
    folder = _missing_folder(image, record)
    delta = ImageDelta(ended_ingests=(known.key,), committed_ingests=(record,), made_ingest_folders=folder)
    return Decision((Delete(known.path), *map(Create, folder), write), delta, record)


def _check_states(image: ClusterImage, topic_id: Uuid, versions: Mapping[int, int]) -> None:
    """Refuse a commit if a partition's leader or ISR has changed since the commit was prepared. A comparison with the
    image is sufficient: only the controller writes partition states, and the multi checks the controller epoch."""
    partitions = image.topics[image.names[topic_id]].partitions
    for index, version in versions.items():
        if partitions[index].state_version != version:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION, f"The leader or the ISR of partition {index} has changed. Try again."
            )


@decides(ReopenIngest)
def decide_reopen_ingest(image: ClusterImage, event: ReopenIngest) -> Decision:
    """Allow appends again after a failed prepare. If the ingest is no longer open, do nothing."""
    known = image.ingests.get(event.key)
    if known is None or known.epoch != event.epoch:
        return nothing(None)
    record = msgspec.structs.replace(known, reopened=known.reopened + 1)
    return Decision((Set(record.path, record.encode()),), ImageDelta(ingests=(record,)), None)


@decides(TouchIngests)
def decide_touch_ingests(image: ClusterImage, event: TouchIngests) -> Decision:
    """Record the time of the last append. Ignore the event if the ingest is no longer open, or has a later time
    already."""
    touched = [
        msgspec.structs.replace(known, touched_ms=at_ms)
        for key, epoch, at_ms in event.touched
        if (known := image.ingests.get(key)) is not None and known.epoch == epoch and known.last_ms < at_ms
    ]
    if not touched:
        return nothing(None)
    writes = tuple(Set(record.path, record.encode()) for record in touched)
    return Decision(writes, ImageDelta(ingests=tuple(touched)), None)


@decides(FinishIngest)
def decide_finish_ingest(image: ClusterImage, event: FinishIngest) -> Decision:
    """Record the offsets of partitions that have linked the segments. Return the record with these offsets."""
    known = image.committed_ingests.get(series_of(event.key))
    if known is None or known.key != event.key:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "The commit of this ingest is no longer known.")
    if known.state == COMMITTED:
        return nothing(known)
    partitions = {
        index: msgspec.structs.replace(part, base_offset=found[0], end_offset=found[1])
        if part.base_offset == PENDING and (found := event.offsets.get(index)) is not None
        else part
        for index, part in known.partitions.items()
    }
    record = _finished(known, partitions)
    if record == known:
        return nothing(known)
    return Decision((Set(record.path, record.encode()),), ImageDelta(committed_ingests=(record,)), record)


def _finished(known: IngestRecord, partitions: Mapping[int, IngestedPartition]) -> IngestRecord:
    """Return the record with these offsets. Its state is COMMITTED if no partition is missing."""
    record = msgspec.structs.replace(known, partitions=partitions)
    return record if record.pending else record.committed()


@decides(LoseIngest)
def decide_lose_ingest(image: ClusterImage, event: LoseIngest) -> Decision:
    """Handle a leader's loss of staged data. Ignore the report of a former leader: the current leader may have the
    data."""
    known = image.committed_ingests.get(series_of(event.key))
    if known is None or known.key != event.key:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "The commit of this ingest is no longer known.")
    topic = image.topic_by_id(known.topic_id)
    if known.state == COMMITTED or topic is None:
        return nothing(known)
    alive = frozenset(image.brokers) - image.leaving
    states, parts = list(topic.partitions), dict(known.partitions)
    operations: list[Operation] = []
    for index, epoch in event.partitions.items():
        before = states[index]
        if index not in known.pending or (before.leader, before.leader_epoch) != (event.broker_id, epoch):
            continue
        others = tuple(member for member in before.isr if member != event.broker_id)
        if others:
            found = elect(msgspec.structs.replace(before, isr=others), alive)
            states[index] = next_state(image, before, found)
            operations.append(set_state(topic.name, index, states[index], before))
        else:
            parts[index] = msgspec.structs.replace(parts[index], base_offset=LOST, end_offset=LOST)
    record = _finished(known, parts)
    if record != known:
        operations.append(Set(record.path, record.encode()))
    if not operations:
        return nothing(known)
    lost = sorted(set(record.lost) - set(known.lost))
    warnings = (
        (
            "records of a committed ingest are lost: every replica that had staged them has lost them "
            f"ingest={record.ingest_id!r} topic={topic.name} batch={record.batch_id} partitions={lost}"
        ),
    )
    delta = ImageDelta(
        topics=(with_partitions(topic, states),) if states != list(topic.partitions) else (),
        committed_ingests=(record,) if record != known else (),
    )
    return Decision(tuple(operations), delta, record, warnings=warnings if lost else ())


@decides(DropIngests)
def decide_drop_ingests(image: ClusterImage, event: DropIngests) -> Decision:
    """End open ingests (aborted, expired, topic deleted) and remove the records of committed ingests. Ignore an ingest
    that has no record or has been opened again since. Return the open ingests that ended."""
    ended = [
        record for key, epoch in event.open if (record := image.ingests.get(key)) is not None and epoch == record.epoch
    ]
    forgotten = [
        record
        for key, batch_id in event.committed
        if (record := image.committed_ingests.get(key)) is not None and record.batch_id == batch_id
    ]
    paths = [record.path for record in (*ended, *forgotten)]
    folders = _emptied_folders(image, event.topics, set(paths)) if event.topics else ()
    delta = ImageDelta(
        ended_ingests=tuple(record.key for record in ended),
        forgotten_ingests=tuple(record.series for record in forgotten),
        removed_ingest_folders=folders,
    )
    return Decision(tuple(map(Delete, (*paths, *folders))), delta, ended)


def _emptied_folders(image: ClusterImage, topics: Iterable[Uuid], dropped: AbstractSet[str]) -> tuple[str, ...]:
    """Return the parent znodes of deleted topics that the removal of `dropped` leaves empty."""
    left = {record.path for record in (*image.ingests.values(), *image.committed_ingests.values())}
    used = {path.rpartition("/")[0] for path in (left | image.damaged_ingests) - dropped}
    return tuple(
        path
        for topic_id in topics
        if image.is_dead(topic_id)
        for path in topic_paths(topic_id)
        if path in image.ingest_folders and path not in used
    )
