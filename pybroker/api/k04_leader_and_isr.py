"""LeaderAndIsr (key 4), between controller and broker only; version 5 of KIP-516, by topic id."""

from __future__ import annotations

from pybroker.metadata.control_messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from pybroker.replicas.manager import ReplicaManager

API_KEY = 4


async def handle(replicas: ReplicaManager, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Answers when all partitions are open, with an error for each that is not."""
    return await replicas.leader_and_isr(request)
