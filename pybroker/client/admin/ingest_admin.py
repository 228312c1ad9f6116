"""AdminClient's calls about staged ingests, over pybroker's own requests (docs/staged-ingest.md)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.topic_types import TopicCollection
from pybroker.client.client_errors import broker_error
from pybroker.native import Uuid
from pybroker.protocol import messages as m


class IngestState(IntEnum):
    """The state of an ingest. COMMITTING: the commit is decided, but some brokers have not linked the segments yet.
    ABSENT: the ingest never began, was aborted or has expired.
    """

    OPEN = 0
    COMMITTING = 1
    COMMITTED = 2
    ABSENT = 3


@dataclass(frozen=True, slots=True)
class IngestPartition:
    """The part of an ingest in one partition. base_offset, end_offset (exclusive): the ingest's offsets in the topic;
    None before the commit.
    """

    partition: int
    rows: int
    bytes: int
    base_offset: int | None
    end_offset: int | None


@dataclass(frozen=True, slots=True)
class IngestListing:
    """A staged ingest. batch_id: the batch of a stream, None for a single load. created_ms, touched_ms (last append):
    milliseconds since 1970. ttl_ms: the ingest expires after this time without an append. rows, bytes: staged totals.
    """

    topic_id: Uuid
    topic: str
    ingest_id: str
    batch_id: int | None
    epoch: int
    state: IngestState
    created_ms: int
    touched_ms: int
    ttl_ms: int
    writers: int
    rows: int
    bytes: int
    partitions: tuple[IngestPartition, ...]


class IngestsAdmin(AdminBase):
    """Calls about running and committed bulk loads. They raise UnsupportedVersionError if a broker is not pybroker."""

    async def list_ingests(
        self,
        *,
        topic_ids: Collection[Uuid] | None = None,
        ingest_id: str | None = None,
        include_committed: bool = False,
    ) -> list[IngestListing]:
        """Return staged ingests. topic_ids, ingest_id: None = all. include_committed: also return committed ingests
        that the cluster remembers.
        """
        request = m.ListIngestsRequest(
            topic_ids=None if topic_ids is None else list(TopicCollection.of_topic_ids(topic_ids).topic_ids()),
            ingest_id=ingest_id,
            include_committed=include_committed,
        )
        found: list[IngestListing] = []
        while True:
            answer = await self._controller(request, lambda response: (response,))
            if answer.error_code:
                raise broker_error(answer.error_code, answer.error_message, about="list of ingests")
            found += (_listing(row) for row in answer.ingests)
            if answer.next is None:
                return found
            request.after = answer.next

    async def abort_ingest(self, topic_id: Uuid, ingest_id: str, *, batch_id: int | None = None) -> IngestState:
        """Drop the staged data of an ingest. Returns ABSENT on success. COMMITTED or COMMITTING means that the ingest
        is already committed and its data stays.
        """
        TopicCollection.of_topic_ids([topic_id])  # Raises TypeError unless `topic_id` is an id
        cluster = await self._network.refresh(())
        request = m.IngestAbortRequest(
            cluster_id=cluster.id or "",
            topic_id=topic_id,
            ingest_id=ingest_id,
            batch_id=-1 if batch_id is None else batch_id,
        )
        answer = await self._controller(request, lambda response: (response,))
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about=f"ingest {ingest_id}")
        return IngestState(answer.state)


def _listing(row: Any) -> IngestListing:
    return IngestListing(
        row.topic_id,
        row.topic_name,
        row.ingest_id,
        None if row.batch_id < 0 else row.batch_id,
        row.epoch,
        IngestState(row.state),
        row.created_ms,
        row.touched_ms,
        row.ttl_ms,
        row.writers,
        row.rows,
        row.bytes,
        tuple(
            IngestPartition(
                each.partition,
                each.rows,
                each.bytes,
                None if each.base_offset < 0 else each.base_offset,
                None if each.end_offset < 0 else each.end_offset,
            )
            for each in row.partitions
        ),
    )
