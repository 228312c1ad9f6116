"""Routes of client requests: API key → handler, bound to the services that it needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pybroker.broker import api
from pybroker.broker.ingest.ingest_access import IngestAccess
from pybroker.broker.requests.context import Handler, RequestContext
from pybroker.broker.services import Services

if TYPE_CHECKING:
    from pybroker.broker.api.share_records import ShareAdmin, ShareSources
    from pybroker.broker.api.topic_ids import ImageNames

Routes = dict[int, Callable[[], Handler]]


class _AtFirst:
    """A placeholder in the table of routes. The first request with its key imports the file and replaces the
    placeholder by the bound handler.
    """

    def __init__(self, table: dict[int, Handler], key: int, bind: Callable[[], Handler]) -> None:
        self._table = table
        self._key = key
        self._bind = bind

    def __call__(self, context: RequestContext, request: Any) -> Any:
        handler = self._table[self._key] = self._bind()
        return handler(context, request)


def client_routes(services: Services) -> dict[int, Handler]:
    """Return the table of routes. The first request with a key imports and binds the key's handler."""
    table: dict[int, Handler] = {}
    for key, bind in routes(services).items():
        table[key] = _AtFirst(table, key, bind)
    return table


def routes(services: Services) -> Routes:
    """Bind the files of `pybroker/broker/api` to the services that they need; each file has one line."""
    groups, admin, authorizer = services.groups, services.admin, services.authorizer
    # The first object resolves topic names in the controller's image, the second in the view of this broker's
    # coordinators.
    living = services.group_topics

    def names() -> ImageNames:
        return api.topic_ids.ImageNames(services.view)

    ingests = services.ingests
    ingest_access = IngestAccess(services.cache, authorizer, services.topics.unknown)

    return {
        3: lambda: partial(api.k03_metadata.handle, services.cluster, services.topics, authorizer),
        8: lambda: partial(api.k08_offset_commit.handle, groups, services.group_topics, authorizer),
        9: lambda: partial(api.k09_offset_fetch.handle, groups, services.group_topics, authorizer),
        10: lambda: partial(
            api.k10_find_coordinator.handle,
            api.k10_find_coordinator.Coordinators(groups, services.transactions.coordinator, services.shares.states),
            authorizer,
        ),
        11: lambda: partial(api.k11_join_group.handle, groups, authorizer),
        12: lambda: partial(api.k12_heartbeat.handle, groups, authorizer),
        13: lambda: partial(api.k13_leave_group.handle, groups, authorizer),
        14: lambda: partial(api.k14_sync_group.handle, groups, authorizer),
        15: lambda: partial(api.k15_describe_groups.handle, groups, authorizer),
        16: lambda: partial(api.k16_list_groups.handle, groups, authorizer),
        19: lambda: partial(api.k19_create_topics.handle, services.topics, services.config, authorizer),
        20: lambda: partial(api.k20_delete_topics.handle, services.topics, services.cluster, authorizer),
        21: lambda: partial(api.k21_delete_records.handle, admin.records, living, authorizer),
        22: lambda: partial(
            api.k22_init_producer_id.handle, services.producer_ids, services.transactions.coordinator, authorizer
        ),
        32: lambda: partial(api.k32_describe_configs.handle, admin.configs, names(), authorizer),
        33: lambda: partial(api.k33_alter_configs.handle, admin.configs, names(), authorizer),
        34: lambda: partial(api.k34_alter_replica_log_dirs.handle, admin.log_dirs, living, authorizer),
        35: lambda: partial(api.k35_describe_log_dirs.handle, admin.log_dirs, living, authorizer),
        37: lambda: partial(api.k37_create_partitions.handle, services.topics, services.view, authorizer),
        42: lambda: partial(api.k42_delete_groups.handle, groups, services.shares.coordination, authorizer),
        43: lambda: partial(api.k43_elect_leaders.handle, admin.elections, names(), authorizer),
        44: lambda: partial(api.k44_incremental_alter_configs.handle, admin.configs, names(), authorizer),
        45: lambda: partial(api.k45_alter_partition_reassignments.handle, admin.reassignments, names(), authorizer),
        46: lambda: partial(api.k46_list_partition_reassignments.handle, admin.reassignments, names(), authorizer),
        47: lambda: partial(api.k47_offset_delete.handle, groups, authorizer),
        **_of_quorum(services),
        **_of_transactions(services),
        **_of_shares(services),
        **_of_streams(services),
        68: lambda: partial(api.k68_consumer_group_heartbeat.handle, groups, admin.features, authorizer),
        69: lambda: partial(
            api.k69_consumer_group_describe.handle,
            api.described_groups.DescribedGroupSources(groups, services.group_topics, admin.features),
            authorizer,
        ),
        57: lambda: partial(api.k57_update_features.handle, admin.features, authorizer),
        60: lambda: partial(api.k60_describe_cluster.handle, services.cluster, authorizer),
        64: lambda: partial(api.k64_unregister_broker.handle, admin.brokers, authorizer),
        71: lambda: partial(api.k71_get_telemetry_subscriptions.handle, services.telemetry),
        72: lambda: partial(api.k72_push_telemetry.handle, services.telemetry),
        74: lambda: partial(api.k74_list_config_resources.handle, services.cluster, services.view, authorizer),
        75: lambda: partial(api.k75_describe_topic_partitions.handle, services.cluster, services.config, authorizer),
        17: lambda: partial(api.k17_sasl_handshake.handle, services.sasl),
        29: lambda: partial(api.k29_describe_acls.handle, admin.acls, authorizer),
        30: lambda: partial(api.k30_create_acls.handle, admin.acls, authorizer),
        31: lambda: partial(api.k31_delete_acls.handle, admin.acls, authorizer),
        36: lambda: partial(api.k36_sasl_authenticate.handle, services.sasl),
        38: lambda: partial(api.k38_create_delegation_token.handle, services.tokens, authorizer),
        39: lambda: partial(api.k39_renew_delegation_token.handle, services.tokens),
        40: lambda: partial(api.k40_expire_delegation_token.handle, services.tokens),
        41: lambda: partial(api.k41_describe_delegation_token.handle, services.tokens, authorizer),
        48: lambda: partial(api.k48_describe_client_quotas.handle, admin.quotas, authorizer),
        49: lambda: partial(api.k49_alter_client_quotas.handle, admin.quotas, authorizer),
        50: lambda: partial(api.k50_describe_user_scram_credentials.handle, admin.users, authorizer),
        51: lambda: partial(api.k51_alter_user_scram_credentials.handle, admin.users, authorizer),
        32150: lambda: partial(
            api.k32150_ingest_begin.handle, ingests, ingest_access, services.config["socket.request.max.bytes"]
        ),
        32152: lambda: partial(api.k32152_ingest_commit.handle, ingests, ingest_access),
        32153: lambda: partial(api.k32153_ingest_abort.handle, ingests, ingest_access),
        32154: lambda: partial(api.k32154_list_ingests.handle, ingests, ingest_access),
        32143: lambda: partial(api.k32143_undelete_topics.handle, admin.lineage, authorizer),
        32144: lambda: partial(api.k32144_truncate_topics.handle, admin.lineage, authorizer),
        32145: lambda: partial(api.k32145_describe_topic_history.handle, admin.history, authorizer),
        32146: lambda: partial(api.k32146_describe_deletions.handle, admin.history, authorizer),
        32147: lambda: partial(api.k32147_describe_cluster_state.handle, services.cluster_state, authorizer),
        32148: lambda: partial(api.k32148_delete_offsets.handle, groups, living, authorizer),
        32149: lambda: partial(api.k32149_purge_topics.handle, admin.lineage, authorizer),
    }


def _of_quorum(services: Services) -> Routes:
    admin, authorizer = services.admin, services.authorizer
    return {
        55: lambda: partial(api.k55_describe_quorum.handle, admin.quorum, authorizer),
        80: lambda: partial(api.k80_add_raft_voter.handle, admin.quorum, authorizer),
        81: lambda: partial(api.k81_remove_raft_voter.handle, admin.quorum, authorizer),
        94: lambda: partial(api.k94_unregister_controller.handle, admin.quorum, authorizer),
        32155: lambda: partial(api.k32155_transfer_quorum_leader.handle, admin.quorum, authorizer),
    }


def _of_transactions(services: Services) -> Routes:
    transactions, topics, authorizer = services.transactions, services.group_topics, services.authorizer
    coordinator = transactions.coordinator
    return {
        24: lambda: partial(api.k24_add_partitions_to_txn.handle, coordinator, topics, authorizer),
        25: lambda: partial(api.k25_add_offsets_to_txn.handle, coordinator, transactions.commits, authorizer),
        26: lambda: partial(api.k26_end_txn.handle, coordinator, authorizer),
        27: lambda: partial(api.k27_write_txn_markers.handle, transactions.markers, topics, authorizer),
        28: lambda: partial(api.k28_txn_offset_commit.handle, transactions.commits, topics, authorizer),
        61: lambda: partial(api.k61_describe_producers.handle, services.native.partitions, topics, authorizer),
        65: lambda: partial(api.k65_describe_transactions.handle, coordinator, authorizer),
        66: lambda: partial(api.k66_list_transactions.handle, coordinator, transactions.clock, authorizer),
    }


def _of_shares(services: Services) -> Routes:
    shares, topics, admin = services.shares, services.group_topics, services.admin
    authorizer, coordination = services.authorizer, shares.coordination

    def shares_admin() -> ShareAdmin:
        return api.share_records.ShareAdmin(coordination, topics, admin.features)

    def sources() -> ShareSources:
        return api.share_records.ShareSources(shares.partitions, shares.settings, admin.features)

    return {
        76: lambda: partial(api.k76_share_group_heartbeat.handle, services.groups, admin.features, authorizer),
        77: lambda: partial(
            api.k77_share_group_describe.handle,
            api.described_groups.DescribedGroupSources(services.groups, topics, admin.features),
            authorizer,
        ),
        78: lambda: partial(api.k78_share_fetch.handle, sources(), authorizer),
        79: lambda: partial(api.k79_share_acknowledge.handle, sources(), authorizer),
        90: lambda: partial(
            api.k90_describe_share_group_offsets.handle,
            api.k90_describe_share_group_offsets.ShareOffsetSources(
                coordination, topics, admin.features, services.ends
            ),
            authorizer,
        ),
        91: lambda: partial(api.k91_alter_share_group_offsets.handle, shares_admin(), authorizer),
        92: lambda: partial(api.k92_delete_share_group_offsets.handle, shares_admin(), authorizer),
    }


def _of_streams(services: Services) -> Routes:
    groups, admin, authorizer = services.groups, services.admin, services.authorizer
    return {
        88: lambda: partial(
            api.k88_streams_group_heartbeat.handle,
            api.k88_streams_group_heartbeat.StreamsHeartbeatSources(groups, admin.streams_topics, admin.features),
            authorizer,
        ),
        89: lambda: partial(
            api.k89_streams_group_describe.handle,
            api.k89_streams_group_describe.StreamsGroupSources(groups, admin.features),
            authorizer,
        ),
        93: lambda: partial(
            api.k93_streams_group_topology_description_update.handle, groups, admin.features, authorizer
        ),
    }
