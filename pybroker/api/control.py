"""The controller's messages to this broker as objects: the way they come with the embedded store (R15)."""

from __future__ import annotations

from pybroker.api import k04_leader_and_isr, k05_stop_replica, k06_update_metadata
from pybroker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from pybroker.replicas.manager import ReplicaManager


async def handle(replicas: ReplicaManager, request: ControlRequest) -> ControlResponse:
    """To the handler of its key; changed configs, which have none, go straight to the replica manager."""
    if isinstance(request, LeaderAndIsrRequest):
        return await k04_leader_and_isr.handle(replicas, request)
    if isinstance(request, StopReplicaRequest):
        return await k05_stop_replica.handle(replicas, request)
    if isinstance(request, UpdateMetadataRequest):
        return await k06_update_metadata.handle(replicas, request)
    return replicas.update_configs(request)
