"""DescribeLogDirs (key 35), versions 0–5: returns this broker's log directories and their partitions (KIP-113).

Behavior
- The response has no error per topic: a topic whose id does not match its name is omitted, like a topic that does not
  exist.

Versions
- v3 adds an error code for the response, v4 the sizes of file systems (KIP-827), v5 cordoned directories (KIP-1066).
- From v2 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from pybroker.broker.admin.log_dirs import LogDirAdmin
from pybroker.broker.api.topic_ids import Names, meant
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponse_DescribeLogDirsPartition,
    DescribeLogDirsResponse_DescribeLogDirsResult,
    DescribeLogDirsResponse_DescribeLogDirsTopic,
)

API_KEY = 35


async def handle(
    log_dirs: LogDirAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse:
    """Return all partitions if topics are null; otherwise the requested partitions that this broker hosts."""
    if not authorizer.permits_on_cluster(context, AclOperation.DESCRIBE):
        # Below version 3 the response has no error field, so return an empty response.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    requested: dict[str | Uuid, set[int]] | None = None
    if request.topics is not None:
        requested = {}
        for asked in request.topics:
            topic = meant(names, asked.topic, asked.topic_id)
            if topic.refused is None:
                requested.setdefault(topic.topic_id or topic.name, set()).update(asked.partitions)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse_DescribeLogDirsResult(
                error_code=directory.error_code,
                log_dir=directory.path,
                topics=[
                    DescribeLogDirsResponse_DescribeLogDirsTopic(
                        name=name,
                        topic_id=topic_id if requested is not None and topic_id in requested else Uuid.ZERO,
                        partitions=[
                            DescribeLogDirsResponse_DescribeLogDirsPartition(
                                partition_index=partition, partition_size=size, offset_lag=lag, is_future_key=future
                            )
                            for partition, size, lag, future in partitions
                        ],
                    )
                    for (name, topic_id), partitions in topics.items()
                ],
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
                is_cordoned=log_dirs.is_cordoned(directory.path),
            )
            for directory, topics in await log_dirs.describe(requested)
        ]
    )
