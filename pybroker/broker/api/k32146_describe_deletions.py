"""DescribeDeletions (key 32146, pybroker's own), versions 0–1: returns the progress of deletions.

Behavior
- Without topics: every deletion whose data still exists. With topics, by name or id: all their deletions, finished ones
  too. Only topics that the caller may DESCRIBE.
- The broker asks the other brokers for their part. Sizes and times of a broker that does not answer within 2 s are −1.

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
    wanted: list[str | Uuid] | None = None
    if request.topics is not None:
        wanted = [topic.name if topic.name is not None else topic.topic_id for topic in request.topics]
    # Before any disk is read: a client that may see nothing must cost nothing.
    told = partial(authorizer.lists, context, ResourceType.TOPIC)
    return DescribeDeletionsResponse(deletions=[_deletion(one) for one in await history.deletions(wanted, told)])


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
