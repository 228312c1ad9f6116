"""`AdminClient`: topics, groups, settings, records and the other administrative calls."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pybroker.client.admin.cluster_state_admin import ClusterStateAdmin
from pybroker.client.admin.config_admin import ConfigsAdmin
from pybroker.client.admin.group_admin import GroupsAdmin
from pybroker.client.admin.incarnation_admin import IncarnationsAdmin
from pybroker.client.admin.ingest_admin import IngestsAdmin
from pybroker.client.admin.placement_admin import PlacementAdmin
from pybroker.client.admin.quorum_admin import QuorumAdmin
from pybroker.client.admin.quota_admin import ClientQuotasAdmin
from pybroker.client.admin.record_admin import RecordsAdmin
from pybroker.client.admin.security_admin import SecurityAdmin
from pybroker.client.admin.share_group_admin import ShareGroupsAdmin
from pybroker.client.admin.topic_admin import TopicsAdmin
from pybroker.client.admin.transaction_admin import TransactionsAdmin
from pybroker.client.cluster_metadata import Node
from pybroker.client.connection.network import Where


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster and its controller. cluster_id: None if the brokers are older than KIP-78."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]


class AdminClient(
    TopicsAdmin,
    IncarnationsAdmin,
    PlacementAdmin,
    IngestsAdmin,
    ConfigsAdmin,
    GroupsAdmin,
    ShareGroupsAdmin,
    RecordsAdmin,
    SecurityAdmin,
    TransactionsAdmin,
    ClusterStateAdmin,
    QuorumAdmin,
    ClientQuotasAdmin,
):
    """Administers a cluster, asynchronously; `pybroker.client.blocking.AdminClient` has the same calls without asyncio.

        async with AdminClient({"bootstrap.servers": "127.0.0.1:9092"}) as admin:
            created = await admin.create_topics([NewTopic("words", num_partitions=3)])
            print(created["words"].topic_id)

    config: settings under Kafka's names; an unknown name raises ClientConfigError. The first call connects. A call
    about several items returns a result object without waiting. Await the object for all items, or one of its futures
    for one item.
    """

    async def send(self, message: Any, *, node: Where = "any") -> Any:
        """Send any message of `pybroker.protocol.messages`, including those of pybroker's own API keys, and return the
        response.

        node: "any", "controller" or a broker's id. The caller checks error codes in the response. If the connection
        breaks, the client sends the request again. Raises UnsupportedVersionError if the broker does not know the API
        key, BrokerConnectionError if no broker can be reached, KafkaTimeoutError if none responds in time.
        """
        return await self._network.ask(message, node)

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers."""
        cluster = await self._network.refresh(())
        return ClusterDescription(cluster.id, cluster.controller, cluster.nodes)

    async def close(self) -> None:
        """Close all connections."""
        await self._network.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
