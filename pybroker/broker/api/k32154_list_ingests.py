"""ListIngests (key 32154, pybroker's own), version 0: lists open ingests and, on request, committed ones.

Behavior
- Ingests of topics that the caller may not DESCRIBE are omitted and do not count towards the page size.
"""

from __future__ import annotations

import asyncio

from pybroker.broker.ingest.ingest_access import IngestAccess
from pybroker.broker.ingest.ingest_pages import Page, entries_of, wire_state
from pybroker.broker.ingest.ingests import Ingests, IngestView
from pybroker.broker.requests.context import RequestContext
from pybroker.protocol.messages import (
    ListIngestsRequest,
    ListIngestsResponse,
    ListIngestsResponse_ListedIngest,
    ListIngestsResponse_ListedIngestPartition,
)

API_KEY = 32154

LOOKED_AT_A_TURN = 500
"""The broker may remember a hundred thousand ingests. A listing lets other requests run each time it has read this many
ingests (1 μs each), or has encoded this many ingests and partitions of the page (up to 10 μs each).
"""


async def handle(
    ingests: Ingests, access: IngestAccess, context: RequestContext, request: ListIngestsRequest
) -> ListIngestsResponse:
    """Return a page of ingests, from memory."""
    views, following = await _page(ingests, access, context, request)
    listed = []
    made = 0
    for view in views:
        made += entries_of(view)
        if made > LOOKED_AT_A_TURN:
            await asyncio.sleep(0)
            made = 0
        name = access.cache.topic_name(view.record.topic_id)
        # The topic may have been deleted while other requests ran.
        if name is not None:
            listed.append(_listed(view, name))
    return ListIngestsResponse(ingests=listed, next=following)


async def _page(
    ingests: Ingests, access: IngestAccess, context: RequestContext, request: ListIngestsRequest
) -> tuple[list[IngestView], str | None]:
    requested = None if request.topic_ids is None else set(request.topic_ids)
    page = Page(request.after)
    for looked_at, view in enumerate(ingests.views(request.include_committed)):
        if looked_at % LOOKED_AT_A_TURN == 0:
            await asyncio.sleep(0)
        if (
            (requested is None or view.record.topic_id in requested)
            and request.ingest_id in (None, view.record.ingest_id)
            and page.takes(view)
            and (name := access.cache.topic_name(view.record.topic_id)) is not None
            and access.lists(context, name)
        ):
            page.add(view)
    return page.close()


def _listed(view: IngestView, topic_name: str) -> ListIngestsResponse_ListedIngest:
    record = view.record
    partitions = [
        ListIngestsResponse_ListedIngestPartition(
            partition=index,
            rows=part.rows,
            bytes=part.bytes,
            base_offset=part.base_offset,
            end_offset=part.end_offset,
        )
        for index, part in sorted(record.partitions.items())
    ] or [
        ListIngestsResponse_ListedIngestPartition(partition=index, rows=rows, bytes=size)
        for index, (rows, size) in sorted(view.staged.items())
    ]
    return ListIngestsResponse_ListedIngest(
        topic_id=record.topic_id,
        topic_name=topic_name,
        ingest_id=record.ingest_id,
        batch_id=record.batch_id,
        epoch=record.epoch,
        state=wire_state(record.state),
        created_ms=record.created_ms,
        touched_ms=view.touched_ms,
        ttl_ms=record.ttl_ms,
        writers=view.writers,
        rows=sum(part.rows for part in partitions),
        bytes=sum(part.bytes for part in partitions),
        partitions=partitions,
    )
