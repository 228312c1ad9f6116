"""AlterReplicaLogDirs (key 34, KIP-113): moves partitions of this broker to other log directories."""

from __future__ import annotations

from pybroker.admin.log_dirs import LogDirAdmin
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse_AlterReplicaLogDirTopicResult,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from pybroker.security.authorizer import Authorizer

API_KEY = 34


async def handle(
    log_dirs: LogDirAdmin, authorizer: Authorizer, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Answers when the moves are ordered; DescribeLogDirs shows how far they have got."""
    allowed = authorizer.permits(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    results: dict[str, list[AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                code = (
                    await log_dirs.move(topic.name, partition, directory.path)
                    if allowed
                    else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                )
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirsResponse_AlterReplicaLogDirPartitionResult(
                        partition_index=partition, error_code=int(code)
                    )
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse_AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )
