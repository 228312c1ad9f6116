"""DescribeDeletions (key 32146, pybroker's own), versions 0–1: returns the progress of deletions.

Behavior
- A request without topics returns every deletion whose data still exists. A request with topics, by name or id, returns
  all their deletions, including finished ones. The response contains only topics that the caller may DESCRIBE.
- The broker asks the other brokers about the data on their disks. If one does not answer within 2 s, its sizes and
  times are −1.

Versions
- v1 adds the end of the delay (`remove_after_ms`) and whether the topic can be restored (`undeletable`).
"""

from __future__ import annotations

from functools import partial

from pybroker.broker.admin.history import Deletion, HistoryAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer, ResourceType
from pybroker.native import Uuid
from pybroker.protocol.messages import (
    DescribeDeletionsRequest,
    DescribeDeletionsResponse,
    DescribeDeletionsResponse_Deletion,
    DescribeDeletionsResponse_DeletionPartition,
)

API_KEY = 32146


async def handle(
    history: HistoryAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeDeletionsRequest
) -> DescribeDeletionsResponse:
    """Return the deletions from this broker's view of the cluster and the disks of all brokers."""
    requested: list[str | Uuid] | None = None
    if request.topics is not None:
        requested = [topic.name if topic.name is not None else topic.topic_id for topic in request.topics]
    # Return before any disk is read: a request from a client that may see no topic must not cost disk reads.
    may_see = partial(authorizer.lists, context, ResourceType.TOPIC)
    return DescribeDeletionsResponse(
        deletions=[_deletion(deletion) for deletion in await history.deletions(requested, may_see)]
    )


def _deletion(one: Deletion) -> DescribeDeletionsResponse_Deletion:
    record = one.record
    return DescribeDeletionsResponse_Deletion(
        name=record.topic,
        topic_id=record.topic_id,
        state=record.state,
        how=record.how,
        deleted_ms=record.deleted_ms,
        deleted_by=record.deleted_by,
        remaining_ms=one.remaining_ms,
        size_bytes=one.size_bytes,
        remove_after_ms=record.remove_after_ms,
        undeletable=record.undeletable,
        partitions=[
            DescribeDeletionsResponse_DeletionPartition(
                partition_index=each.partition,
                broker_id=each.broker_id,
                state=each.state,
                log_dir=each.log_dir,
                size_bytes=each.size_bytes,
                remaining_ms=each.remaining_ms,
            )
            for each in one.partitions
        ],
    )
