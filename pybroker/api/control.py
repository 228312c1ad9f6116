"""The controller's messages to this broker as objects: the way they come with the embedded store (R15)."""

from __future__ import annotations

from pybroker.api import k04_leader_and_isr, k05_stop_replica, k06_update_metadata
from pybroker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    RestoreReplicasRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    UpdateSecurity,
)
from pybroker.replicas.manager import ReplicaManager
from pybroker.security.security import Security


async def handle(replicas: ReplicaManager, security: Security, request: ControlRequest) -> ControlResponse:
    """To the handler of its key; what is no message of Kafka's goes straight to who obeys it."""
    if isinstance(request, UpdateSecurity):
        return security.update(request)
    if isinstance(request, LeaderAndIsrRequest):
        return await k04_leader_and_isr.handle(replicas, request)
    if isinstance(request, StopReplicaRequest):
        return await k05_stop_replica.handle(replicas, request)
    if isinstance(request, UpdateMetadataRequest):
        return await k06_update_metadata.handle(replicas, request)
    if isinstance(request, RestoreReplicasRequest):
        return await replicas.restore_replicas(request)
    return replicas.update_configs(request)
