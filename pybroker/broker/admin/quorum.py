"""The voters of the metadata quorum: DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UnregisterController, and the
transfer of leadership.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.quorum_events import (
    AddVoter,
    DescribeQuorum,
    QuorumAddress,
    QuorumState,
    RemoveVoter,
    TransferQuorumLeader,
    UnregisterController,
)
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

REPLY_MS = 1_000
"""Milliseconds before the request's timeout at which the leader gives up, so that its answer arrives in time."""
CHANGE_MS_MAX = 25_000


class VoterAdmin:
    """Requests about the metadata quorum. Each call queries the leader, which may be another broker. Raises KafkaError.
    """

    def __init__(self, cluster_id: str, config: BrokerConfig, controller: ControllerClient) -> None:
        self._cluster_id = cluster_id
        self._controller = controller
        self.listener = config.between_brokers or ""
        """The listener under which voters are reachable."""

    async def describe(self, caller: Caller) -> QuorumState:
        """Return voters, observers and their progress."""
        return (await self._controller.submit(DescribeQuorum(), caller=caller)).reply

    async def add(
        self,
        cluster_id: str | None,
        voter: tuple[int, Uuid],
        addresses: Sequence[QuorumAddress],
        timeout_ms: int,
        caller: Caller,
        *,
        when_committed: bool = True,
    ) -> None:
        """Turn an observer into a voter. `voter`: its node id and directory id. Only its address on the inter-broker
        listener counts."""
        self._require_cluster(cluster_id)
        node_id, directory_id = voter
        here = tuple(address for address in addresses if address.listener == self.listener)
        if node_id < 0 or directory_id == Uuid.ZERO:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A voter has a node id and a directory id.")
        if not here:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The voter needs an address of the listener {self.listener}.")
        limit_ms = max(0, min(timeout_ms - REPLY_MS, CHANGE_MS_MAX))
        event = AddVoter(node_id, directory_id, here, limit_ms, when_committed)
        await self._controller.submit(event, limit_ms + REPLY_MS, caller=caller)

    async def remove(self, cluster_id: str | None, voter: tuple[int, Uuid], caller: Caller) -> None:
        """Turn a voter into an observer. `voter`: its node id and directory id."""
        self._require_cluster(cluster_id)
        await self._controller.submit(RemoveVoter(*voter), caller=caller)

    async def unregister(self, controller_id: int, caller: Caller) -> None:
        """Confirm that a node that is not a voter is not a controller."""
        await self._controller.submit(UnregisterController(controller_id), caller=caller)

    async def transfer(self, successor: int | None, timeout_ms: int, caller: Caller) -> None:
        """Let the leader resign in favour of a voter. `successor` None: any other voter."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(timeout_ms - REPLY_MS, CHANGE_MS_MAX) / 1000
        while True:
            limit_ms = max(0, int((until - loop.time()) * 1000))
            event = TransferQuorumLeader(successor, limit_ms)
            leader = (await self._controller.submit(event, limit_ms + REPLY_MS, caller=caller)).reply
            if successor in (None, leader):
                return
            # Another voter was elected first; it resigns as well.
            if loop.time() >= until:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Node {leader} was elected instead.")

    def _require_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self._cluster_id:
            raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This cluster has the id {self._cluster_id}.")
