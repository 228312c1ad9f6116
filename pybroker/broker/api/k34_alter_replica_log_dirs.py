"""AlterReplicaLogDirs (key 34), versions 0–2: moves partitions of this broker to other log directories (KIP-113).

Versions
- From v2 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

from pybroker.broker.admin.log_dirs import LogDirAdmin
from pybroker.broker.api.topic_ids import Names, meant
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.native import Uuid
from pybroker.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse_AlterReplicaLogDirTopicResult,
)

API_KEY = 34


async def handle(
    log_dirs: LogDirAdmin,
    names: Names,
    authorizer: Authorizer,
    context: RequestContext,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse:
    """Respond when the moves have started; DescribeLogDirs shows their progress."""

    def require(_: str) -> None:
        authorizer.require_cluster(context, AclOperation.ALTER)

    # Resolve all partitions before the first wait for a move.
    requested = [
        (
            meant(names, topic.name, topic.topic_id, require),
            names.topic_id(topic.name),
            topic.partitions,
            directory.path,
        )
        for directory in request.dirs
        for topic in directory.topics
    ]
    results: dict[tuple[str, Uuid], list[AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult]] = {}
    for topic, named, partitions, path in requested:
        rows = results.setdefault((topic.asked, topic.told_id), [])
        for partition in partitions:
            if topic.refused is None:
                code = await log_dirs.move(topic.topic_id or named, partition, path)
            else:
                code = topic.refused.code
            rows.append(
                AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult(
                    partition_index=partition, error_code=int(code)
                )
            )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse_AlterReplicaLogDirTopicResult(
                topic_name=name, topic_id=topic_id, partitions=partitions
            )
            for (name, topic_id), partitions in results.items()
            if partitions
        ]
    )
