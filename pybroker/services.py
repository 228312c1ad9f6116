"""The objects that handlers are bound to. `composition` makes them; nobody else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pybroker.native import NativeBroker

if TYPE_CHECKING:
    from pybroker.admin.administration import Administration
    from pybroker.admin.cluster import ClusterAdmin
    from pybroker.admin.cluster_state import ClusterState, Figures
    from pybroker.admin.delegation_tokens import TokenAdmin
    from pybroker.admin.disk_room import DiskRoom
    from pybroker.admin.topics import TopicAdmin
    from pybroker.cluster.view import ClusterView
    from pybroker.config import BrokerConfig
    from pybroker.coordinators.group.coordinator import GroupCoordinator
    from pybroker.coordinators.group.streams import StreamsCoordination
    from pybroker.coordinators.producer_ids import ProducerIds
    from pybroker.coordinators.shards.topic_view import CachedTopics
    from pybroker.coordinators.share_partition.ends import PartitionEnds
    from pybroker.coordinators.share_parts import Shares
    from pybroker.coordinators.transaction.transactions import Transactions
    from pybroker.ingest.ingests import Ingests
    from pybroker.metadata.cache import MetadataCache
    from pybroker.security.authorizer import Authorizer
    from pybroker.security.broker_gate import BrokerGate
    from pybroker.security.sasl import SaslServer
    from pybroker.telemetry.instances import Telemetry


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
    streams: StreamsCoordination
    ends: PartitionEnds
    producer_ids: ProducerIds
    authorizer: Authorizer
    sasl: SaslServer
    gate: BrokerGate | None
    """Who is a broker; None of a broker that is alone."""
    tokens: TokenAdmin
    telemetry: Telemetry
    disk_room: DiskRoom
