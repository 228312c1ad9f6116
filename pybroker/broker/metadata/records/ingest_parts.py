"""Staged ingests in NoOpRecord."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pybroker.broker.metadata.image import ImageDelta
from pybroker.broker.metadata.ingest_records import IngestedPartition, IngestKey, IngestRecord, SeriesKey
from pybroker.broker.metadata.records.own_facts import OwnFacts, settings_from, settings_of
from pybroker.native import Uuid
from pybroker.protocol import messages as m


def ingest_frames(delta: ImageDelta, facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of a delta's ingests. Data for a NoOpRecord that is not full yet stays in `facts`."""
    for field in ("ingests", "committed_ingests"):
        for record in getattr(delta, field):
            facts.add(field, _struct(record), weight=1 + len(record.partitions))
            yield from facts.full()
    for key in delta.ended_ingests:
        facts.add("ended_ingests", m.NoOpRecord_IngestKey(*key))
    for series in delta.forgotten_ingests:
        facts.add("forgotten_ingests", m.NoOpRecord_IngestSeries(*series))
    for path, topic_id in delta.made_ingest_folders.items():
        facts.add("ingest_folders", m.NoOpRecord_IngestFolder(path, topic_id))
    for path in delta.removed_ingest_folders:
        facts.add("removed_ingest_folders", path)
    yield from facts.full()


def _struct(record: IngestRecord) -> Any:
    return m.NoOpRecord_Ingest(
        topic_id=record.topic_id,
        ingest_id=record.ingest_id,
        batch_id=record.batch_id,
        epoch=record.epoch,
        state=record.state,
        ttl_ms=record.ttl_ms,
        created_ms=record.created_ms,
        config=settings_of(record.config.items()),
        committed_ms=record.committed_ms,
        partitions=[
            m.NoOpRecord_IngestPartition(index, part.rows, part.bytes, part.base_offset, part.end_offset)
            for index, part in record.partitions.items()
        ],
        plan=record.plan,
        reopened=record.reopened,
        touched_ms=record.touched_ms,
    )


def _record(struct: Any) -> IngestRecord:
    return IngestRecord(
        struct.topic_id,
        struct.ingest_id,
        struct.batch_id,
        struct.epoch,
        struct.state,
        struct.ttl_ms,
        struct.created_ms,
        settings_from(struct.config),
        struct.committed_ms,
        {
            part.partition_id: IngestedPartition(part.rows, part.bytes, part.base_offset, part.end_offset)
            for part in struct.partitions
        },
        struct.plan,
        struct.reopened,
        struct.touched_ms,
    )


class IngestReader:
    """Reads ingests from NoOpRecords."""

    def __init__(self) -> None:
        self.open: list[IngestRecord] = []
        self.committed: list[IngestRecord] = []
        self.ended: list[IngestKey] = []
        self.forgotten: list[SeriesKey] = []
        self.folders: dict[str, Uuid] = {}
        self.removed_folders: list[str] = []

    def read(self, record: m.NoOpRecord) -> None:
        """Read the ingests in a NoOpRecord."""
        self.open += map(_record, record.ingests)
        self.committed += map(_record, record.committed_ingests)
        self.ended += ((key.topic_id, key.ingest_id, key.batch_id) for key in record.ended_ingests)
        self.forgotten += (
            (forgotten_ingest.topic_id, forgotten_ingest.ingest_id, forgotten_ingest.stream)
            for forgotten_ingest in record.forgotten_ingests
        )
        self.folders.update((folder.path, folder.topic_id) for folder in record.ingest_folders)
        self.removed_folders += record.removed_ingest_folders
