"""The handlers of administrative requests. Most brokers need few of them, so a handler is imported and created by the
first request that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pybroker.broker.admin.topics import TopicAdmin
from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.metadata.metadata_cache import MetadataCache
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.broker.replicas.staging import Staging
from pybroker.config import BrokerConfig
from pybroker.native import NativeBroker

if TYPE_CHECKING:
    from pybroker.broker.admin.acls import AclAdmin
    from pybroker.broker.admin.automatic_topics import StreamsTopics
    from pybroker.broker.admin.configs import ConfigAdmin
    from pybroker.broker.admin.features import FeatureAdmin
    from pybroker.broker.admin.history import HistoryAdmin
    from pybroker.broker.admin.log_dirs import LogDirAdmin
    from pybroker.broker.admin.quorum import VoterAdmin
    from pybroker.broker.admin.quotas import QuotaAdmin
    from pybroker.broker.admin.record_deletion import RecordAdmin
    from pybroker.broker.admin.replica_assignment import BrokerAdmin, ElectionAdmin, ReassignmentAdmin
    from pybroker.broker.admin.staged_replicas import PeerBrokers, StagedReplicas
    from pybroker.broker.admin.topic_incarnations import LineageAdmin
    from pybroker.broker.admin.users import UserAdmin


class Administration:
    """Creates the handlers of administrative requests on first use."""

    def __init__(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        config: BrokerConfig,
        clock: Clock,
        native: NativeBroker,
        view: ClusterView,
        controller: ControllerClient,
        cache: MetadataCache,
        topics: TopicAdmin,
        replicas: ReplicaManager,
        staging: Staging,
        others: PeerBrokers | None,
        authorizes: bool,
        voters: Callable[[], frozenset[int]] | None,
    ) -> None:
        """`others` is None on a single broker. `authorizes` is true if an authorizer is configured, so that ACLs are
        enforced. `voters` returns the voters of the metadata quorum, if there is one.
        """
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._config = config
        self._clock = clock
        self._native = native
        self._view = view
        self._controller = controller
        self._cache = cache
        self._topics = topics
        self._replicas = replicas
        self._staging = staging
        self._others = others
        self._authorizes = authorizes
        self._voters = voters

    @cached_property
    def acls(self) -> AclAdmin:
        from pybroker.broker.admin.acls import AclAdmin

        return AclAdmin(self._view, self._controller, enabled=self._authorizes)

    @cached_property
    def brokers(self) -> BrokerAdmin:
        from pybroker.broker.admin.replica_assignment import BrokerAdmin

        return BrokerAdmin(self._controller, self._voters)

    @cached_property
    def configs(self) -> ConfigAdmin:
        from pybroker.broker.admin.configs import ConfigAdmin

        return ConfigAdmin(self._broker_id, self._config, self._view, self._controller)

    @cached_property
    def elections(self) -> ElectionAdmin:
        from pybroker.broker.admin.replica_assignment import ElectionAdmin

        return ElectionAdmin(self._controller)

    @cached_property
    def features(self) -> FeatureAdmin:
        from pybroker.broker.admin.features import FeatureAdmin

        return FeatureAdmin(self._view, self._controller)

    @cached_property
    def history(self) -> HistoryAdmin:
        from pybroker.broker.admin.history import HistoryAdmin

        return HistoryAdmin(self._view, self._native, self.staged_replicas)

    @cached_property
    def lineage(self) -> LineageAdmin:
        """Return the handler that undeletes, purges and truncates topics."""
        from pybroker.broker.admin.topic_incarnations import LineageAdmin

        return LineageAdmin(self._view, self._controller, self._config, self._clock)

    @cached_property
    def log_dirs(self) -> LogDirAdmin:
        from pybroker.broker.admin.log_dirs import LogDirAdmin

        return LogDirAdmin(self._native.log_dirs, self._config, self._view)

    @cached_property
    def quorum(self) -> VoterAdmin:
        """Return the handler of the metadata quorum's voters."""
        from pybroker.broker.admin.quorum import VoterAdmin

        return VoterAdmin(self._cluster_id, self._config, self._controller)

    @cached_property
    def quotas(self) -> QuotaAdmin:
        from pybroker.broker.admin.quotas import QuotaAdmin

        return QuotaAdmin(self._view, self._controller)

    @cached_property
    def reassignments(self) -> ReassignmentAdmin:
        from pybroker.broker.admin.replica_assignment import ReassignmentAdmin

        return ReassignmentAdmin(self._view, self._controller)

    @cached_property
    def records(self) -> RecordAdmin:
        from pybroker.broker.admin.record_deletion import RecordAdmin

        return RecordAdmin(self._native, self._cache, self._replicas)

    @cached_property
    def staged_replicas(self) -> StagedReplicas:
        from pybroker.broker.admin.staged_replicas import StagedReplicas

        return StagedReplicas(self._broker_id, self._view, self._native, self._staging, self._others)

    @cached_property
    def streams_topics(self) -> StreamsTopics:
        from pybroker.broker.admin.automatic_topics import StreamsTopics

        return StreamsTopics(self._topics, self._clock)

    @cached_property
    def users(self) -> UserAdmin:
        from pybroker.broker.admin.users import UserAdmin

        return UserAdmin(self._view, self._controller)
