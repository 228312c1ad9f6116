"""The objects that handlers use. Only `composition` creates them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pybroker.native import NativeBroker

if TYPE_CHECKING:
    from pybroker.broker.admin.administration import Administration
    from pybroker.broker.admin.cluster_description import ClusterAdmin, ClusterState, Figures
    from pybroker.broker.admin.delegation_tokens import TokenAdmin
    from pybroker.broker.admin.deleted_bytes import DeletedBytes
    from pybroker.broker.admin.disk_room import DiskRoom
    from pybroker.broker.admin.topics import TopicAdmin
    from pybroker.broker.client_metrics.client_instances import Telemetry
    from pybroker.broker.cluster.cluster_view import ClusterView
    from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
    from pybroker.broker.coordinators.producer_ids import ProducerIds
    from pybroker.broker.coordinators.shards.topic_view import CachedTopics
    from pybroker.broker.coordinators.share_partition.ends import PartitionEnds
    from pybroker.broker.coordinators.share_parts import Shares
    from pybroker.broker.coordinators.transaction.transactions import Transactions
    from pybroker.broker.ingest.ingests import Ingests
    from pybroker.broker.metadata.metadata_cache import MetadataCache
    from pybroker.broker.security.authorizer import Authorizer
    from pybroker.broker.security.broker_gate import BrokerGate
    from pybroker.broker.security.sasl_server import SaslServer
    from pybroker.config import BrokerConfig


class Services(msgspec.Struct):
    """One broker's services."""

    broker_id: int
    cluster_id: str
    config: BrokerConfig
    native: NativeBroker
    view: ClusterView
    cache: MetadataCache
    topics: TopicAdmin
    admin: Administration
    cluster: ClusterAdmin
    cluster_state: ClusterState
    figures: Figures
    groups: GroupCoordinator
    ingests: Ingests
    group_topics: CachedTopics
    transactions: Transactions
    shares: Shares
    ends: PartitionEnds
    producer_ids: ProducerIds
    authorizer: Authorizer
    sasl: SaslServer
    gate: BrokerGate | None
    """Authenticates other brokers; None on a single broker."""
    tokens: TokenAdmin
    telemetry: Telemetry
    disk_room: DiskRoom
    deleted_bytes: DeletedBytes
