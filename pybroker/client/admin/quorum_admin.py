"""AdminClient's calls about the voters of the metadata log (KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.client_errors import broker_error
from pybroker.native import Uuid
from pybroker.protocol import messages as m

TOPIC = "__cluster_metadata"
CHANGE_S = 20.0
"""Default time limit of a change."""


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """An address of a node's listener."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the metadata log. Times are milliseconds since 1970, or None. log_end_offset: -1 if unknown."""

    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None
    addresses: tuple[RaftVoterEndpoint, ...]


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The metadata quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class QuorumAdmin(AdminBase):
    """The calls about voters. Each raises UnsupportedVersionError if the cluster has no metadata quorum."""

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """Return the leader, the voters and the observers. Needs DESCRIBE on the cluster."""
        partition = m.DescribeQuorumRequest_PartitionData(partition_index=0)
        topic = m.DescribeQuorumRequest_TopicData(topic_name=TOPIC, partitions=[partition])
        answer = await self._network.ask(m.DescribeQuorumRequest(topics=[topic]), "any")
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="metadata quorum")
        described = answer.topics[0].partitions[0]
        if described.error_code:
            raise broker_error(described.error_code, described.error_message, about="metadata quorum")
        addresses = {
            node.node_id: tuple(
                RaftVoterEndpoint(listener.name, listener.host, listener.port) for listener in node.listeners
            )
            for node in answer.nodes
        }
        return QuorumInfo(
            described.leader_id,
            described.leader_epoch,
            described.high_watermark,
            tuple(_replica(row, addresses) for row in described.current_voters),
            tuple(_replica(row, addresses) for row in described.observers),
        )

    async def add_raft_voter(
        self, voter_id: int, directory_id: Uuid, addresses: Sequence[RaftVoterEndpoint], *, timeout_s: float = CHANGE_S
    ) -> None:
        """Turn an observer into a voter. Needs ALTER on the cluster.

        Raises KafkaError DUPLICATE_VOTER if the node is already a voter, REQUEST_TIMED_OUT if it has not caught up in
        time.
        """
        request = m.AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=round(timeout_s * 1000),
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[
                m.AddRaftVoterRequest_Listener(name=address.listener, host=address.host, port=address.port)
                for address in addresses
            ],
        )
        await self._change(request, f"voter {voter_id}")

    async def remove_raft_voter(self, voter_id: int, directory_id: Uuid) -> None:
        """Turn a voter into an observer. Needs ALTER on the cluster. Raises KafkaError VOTER_NOT_FOUND."""
        request = m.RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)
        await self._change(request, f"voter {voter_id}")

    async def transfer_quorum_leader(self, successor: int | None = None, *, timeout_s: float = CHANGE_S) -> None:
        """Let the leader resign in favour of a voter; None: in favour of any other voter. A request of pybroker's own
        (docs/protocol.md). Needs ALTER on the cluster."""
        request = m.TransferQuorumLeaderRequest(
            successor_id=-1 if successor is None else successor, timeout_ms=round(timeout_s * 1000)
        )
        await self._change(request, "leadership of the metadata quorum")

    async def _change(
        self,
        request: m.AddRaftVoterRequest | m.RemoveRaftVoterRequest | m.TransferQuorumLeaderRequest,
        about: str,
    ) -> None:
        answer = await self._network.ask(request, "any")
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about=about)


def _replica(
    row: m.DescribeQuorumResponse_ReplicaState, addresses: Mapping[int, tuple[RaftVoterEndpoint, ...]]
) -> QuorumReplica:
    return QuorumReplica(
        row.replica_id,
        row.replica_directory_id,
        row.log_end_offset,
        row.last_fetch_timestamp if row.last_fetch_timestamp >= 0 else None,
        row.last_caught_up_timestamp if row.last_caught_up_timestamp >= 0 else None,
        addresses.get(row.replica_id, ()),
    )
