"""UpdateMetadata (key 6), between controller and broker only; version 7 of KIP-516 (group K, X14)."""

from __future__ import annotations

from pybroker.metadata.control_messages import UpdateMetadataRequest, UpdateMetadataResponse
from pybroker.replicas.manager import ReplicaManager

API_KEY = 6


async def handle(replicas: ReplicaManager, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    """Answers when clients of this broker see the change."""
    return replicas.update_metadata(request)
