"""StopReplica (key 5), between controller and broker only; version 4 of KIP-516, by topic id."""

from __future__ import annotations

from pybroker.metadata.control_messages import StopReplicaRequest, StopReplicaResponse
from pybroker.replicas.manager import ReplicaManager

API_KEY = 5


async def handle(replicas: ReplicaManager, request: StopReplicaRequest) -> StopReplicaResponse:
    """Answers when the data is out of reach: stopped, or staged for removal."""
    return await replicas.stop_replica(request)
