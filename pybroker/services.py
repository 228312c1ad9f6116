"""The objects that handlers are bound to. `composition` makes them; nobody else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pybroker.native import NativeBroker

if TYPE_CHECKING:
    from pybroker.admin.acls import AclAdmin
    from pybroker.admin.brokers import BrokerAdmin
    from pybroker.admin.cluster import ClusterAdmin
    from pybroker.admin.cluster_state import ClusterState, Figures
    from pybroker.admin.configs import ConfigAdmin
    from pybroker.admin.delegation_tokens import TokenAdmin
    from pybroker.admin.elections import ElectionAdmin
    from pybroker.admin.features import FeatureAdmin
    from pybroker.admin.history import HistoryAdmin
    from pybroker.admin.lineage import LineageAdmin
    from pybroker.admin.log_dirs import LogDirAdmin
    from pybroker.admin.quotas import QuotaAdmin
    from pybroker.admin.reassignments import ReassignmentAdmin
    from pybroker.admin.records import RecordAdmin
    from pybroker.admin.streams_topics import StreamsTopics
    from pybroker.admin.topics import TopicAdmin
    from pybroker.admin.users import UserAdmin
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
    lineage: LineageAdmin
    history: HistoryAdmin
    cluster: ClusterAdmin
    elections: ElectionAdmin
    brokers: BrokerAdmin
    cluster_state: ClusterState
    figures: Figures
    reassignments: ReassignmentAdmin
    records: RecordAdmin
    configs: ConfigAdmin
    log_dirs: LogDirAdmin
    groups: GroupCoordinator
    ingests: Ingests
    group_topics: CachedTopics
    transactions: Transactions
    shares: Shares
    streams: StreamsCoordination
    streams_topics: StreamsTopics
    ends: PartitionEnds
    producer_ids: ProducerIds
    authorizer: Authorizer
    sasl: SaslServer
    gate: BrokerGate | None
    """Who is a broker; None of a broker that is alone."""
    acls: AclAdmin
    users: UserAdmin
    quotas: QuotaAdmin
    tokens: TokenAdmin
    features: FeatureAdmin
    telemetry: Telemetry
