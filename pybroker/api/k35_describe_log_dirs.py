"""DescribeLogDirs, versions 0 to 5: the log directories of this broker with the partitions in them (KIP-113).

v3 brought an error code for the whole answer, v4 the sizes of the file systems (KIP-827), v5 the mark of
cordoned
directories, which this broker does not have (always false).
"""

from __future__ import annotations

from pybroker.admin.log_dirs import LogDirAdmin
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponse_DescribeLogDirsPartition,
    DescribeLogDirsResponse_DescribeLogDirsResult,
    DescribeLogDirsResponse_DescribeLogDirsTopic,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 35


async def handle(
    log_dirs: LogDirAdmin, authorizer: Authorizer, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """All partitions with null topics, else those that are both named and hosted here."""
    if not authorizer.permits_on_cluster(context, AclOperation.DESCRIBE):
        # Before version 3 there is no place for the code: nothing is shown.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse_DescribeLogDirsResult(
                error_code=directory.error_code,
                log_dir=directory.path,
                topics=[
                    DescribeLogDirsResponse_DescribeLogDirsTopic(
                        name=name,
                        partitions=[
                            DescribeLogDirsResponse_DescribeLogDirsPartition(
                                partition_index=partition, partition_size=size, offset_lag=lag, is_future_key=future
                            )
                            for partition, size, lag, future in partitions
                        ],
                    )
                    for name, partitions in topics.items()
                ],
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
            )
            for directory, topics in await log_dirs.describe(wanted)
        ]
    )
