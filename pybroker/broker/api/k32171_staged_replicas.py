"""StagedReplicas (key 32171), between brokers only: reports the replicas of deleted topics on the receiver's disks."""

from __future__ import annotations

from typing import Any

from pybroker.broker.admin.staged_replicas import StagedReplicas
from pybroker.broker.requests.context import RequestContext
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.STAGED_REPLICAS


async def handle(staged: StagedReplicas, context: RequestContext, request: Any) -> Any:
    """Return the replicas that are on the disks now."""
    held = await staged.here(request.topic_ids)
    return wire.StagedReplicasResponse(
        replicas=[
            wire.StagedReplicasResponse_StagedReplica(
                topic_id=replica.topic_id,
                partition_index=replica.partition,
                log_dir=replica.log_dir,
                size_bytes=replica.size_bytes,
                remaining_ms=replica.remaining_ms,
                removing=replica.removing,
            )
            for replica in held.values()
        ]
    )
