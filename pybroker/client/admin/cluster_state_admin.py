"""AdminClient's call about the health of a cluster, over pybroker's own request (docs/protocol.md)."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.client_errors import broker_error
from pybroker.protocol import messages as m


@dataclass(frozen=True, slots=True)
class TroubledPartition:
    """A partition with a problem. leader: a broker id, None without a leader. min_isr: `min.insync.replicas`."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Counts of topics and partitions, and the partitions and topics that have a problem."""

    topics: int
    partitions: int
    offline_partitions: int
    under_replicated_partitions: int
    under_min_isr_partitions: int
    reassigning_partitions: int
    troubled: tuple[TroubledPartition, ...]
    damaged_topics: tuple[tuple[str, str], ...]
    """(topic name, reason) of each damaged topic."""
    voters: tuple[int, ...] = ()
    """Node ids of the voters of the metadata quorum; none with a metadata store."""


class ClusterStateAdmin(AdminBase):
    """The health call. Raises UnsupportedVersionError if the broker is not pybroker."""

    async def describe_cluster_state(self, *, partitions_max: int = 20) -> ClusterState:
        """Return counts and the first `partitions_max` partitions with a problem. Needs DESCRIBE on the cluster."""
        answer = await self._network.ask(m.DescribeClusterStateRequest(partitions_max=partitions_max), "controller")
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="state of the cluster")
        return ClusterState(
            answer.topics,
            answer.partitions,
            answer.offline_partitions,
            answer.under_replicated_partitions,
            answer.under_min_isr_partitions,
            answer.reassigning_partitions,
            tuple(
                TroubledPartition(
                    row.name,
                    row.partition_index,
                    row.leader_id if row.leader_id >= 0 else None,
                    tuple(row.replica_nodes),
                    tuple(row.isr_nodes),
                    row.min_isr,
                )
                for row in answer.conditions
            ),
            tuple((row.name, row.reason) for row in answer.damaged_topics),
            tuple(sorted(voter.voter_id for node in answer.quorum for voter in node.voters)),
        )
