"""One file per incoming API key. The file converts between the wire format and a plain call, so the called code does
not depend on request versions.

A file is imported at the first use of its attribute (`api.k37_create_partitions.handle`): most brokers never receive
most keys, and all files with their message classes take 4 MiB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.broker.api import k03_metadata as k03_metadata
    from pybroker.broker.api import k08_offset_commit as k08_offset_commit
    from pybroker.broker.api import k09_offset_fetch as k09_offset_fetch
    from pybroker.broker.api import k10_find_coordinator as k10_find_coordinator
    from pybroker.broker.api import k11_join_group as k11_join_group
    from pybroker.broker.api import k12_heartbeat as k12_heartbeat
    from pybroker.broker.api import k13_leave_group as k13_leave_group
    from pybroker.broker.api import k14_sync_group as k14_sync_group
    from pybroker.broker.api import k15_describe_groups as k15_describe_groups
    from pybroker.broker.api import k16_list_groups as k16_list_groups
    from pybroker.broker.api import k17_sasl_handshake as k17_sasl_handshake
    from pybroker.broker.api import k19_create_topics as k19_create_topics
    from pybroker.broker.api import k20_delete_topics as k20_delete_topics
    from pybroker.broker.api import k21_delete_records as k21_delete_records
    from pybroker.broker.api import k22_init_producer_id as k22_init_producer_id
    from pybroker.broker.api import k24_add_partitions_to_txn as k24_add_partitions_to_txn
    from pybroker.broker.api import k25_add_offsets_to_txn as k25_add_offsets_to_txn
    from pybroker.broker.api import k26_end_txn as k26_end_txn
    from pybroker.broker.api import k27_write_txn_markers as k27_write_txn_markers
    from pybroker.broker.api import k28_txn_offset_commit as k28_txn_offset_commit
    from pybroker.broker.api import k29_describe_acls as k29_describe_acls
    from pybroker.broker.api import k30_create_acls as k30_create_acls
    from pybroker.broker.api import k31_delete_acls as k31_delete_acls
    from pybroker.broker.api import k32_describe_configs as k32_describe_configs
    from pybroker.broker.api import k33_alter_configs as k33_alter_configs
    from pybroker.broker.api import k34_alter_replica_log_dirs as k34_alter_replica_log_dirs
    from pybroker.broker.api import k35_describe_log_dirs as k35_describe_log_dirs
    from pybroker.broker.api import k36_sasl_authenticate as k36_sasl_authenticate
    from pybroker.broker.api import k37_create_partitions as k37_create_partitions
    from pybroker.broker.api import k38_create_delegation_token as k38_create_delegation_token
    from pybroker.broker.api import k39_renew_delegation_token as k39_renew_delegation_token
    from pybroker.broker.api import k40_expire_delegation_token as k40_expire_delegation_token
    from pybroker.broker.api import k41_describe_delegation_token as k41_describe_delegation_token
    from pybroker.broker.api import k42_delete_groups as k42_delete_groups
    from pybroker.broker.api import k43_elect_leaders as k43_elect_leaders
    from pybroker.broker.api import k44_incremental_alter_configs as k44_incremental_alter_configs
    from pybroker.broker.api import k45_alter_partition_reassignments as k45_alter_partition_reassignments
    from pybroker.broker.api import k46_list_partition_reassignments as k46_list_partition_reassignments
    from pybroker.broker.api import k47_offset_delete as k47_offset_delete
    from pybroker.broker.api import k48_describe_client_quotas as k48_describe_client_quotas
    from pybroker.broker.api import k49_alter_client_quotas as k49_alter_client_quotas
    from pybroker.broker.api import k50_describe_user_scram_credentials as k50_describe_user_scram_credentials
    from pybroker.broker.api import k51_alter_user_scram_credentials as k51_alter_user_scram_credentials
    from pybroker.broker.api import k55_describe_quorum as k55_describe_quorum
    from pybroker.broker.api import k57_update_features as k57_update_features
    from pybroker.broker.api import k60_describe_cluster as k60_describe_cluster
    from pybroker.broker.api import k61_describe_producers as k61_describe_producers
    from pybroker.broker.api import k64_unregister_broker as k64_unregister_broker
    from pybroker.broker.api import k65_describe_transactions as k65_describe_transactions
    from pybroker.broker.api import k66_list_transactions as k66_list_transactions
    from pybroker.broker.api import k68_consumer_group_heartbeat as k68_consumer_group_heartbeat
    from pybroker.broker.api import k69_consumer_group_describe as k69_consumer_group_describe
    from pybroker.broker.api import k71_get_telemetry_subscriptions as k71_get_telemetry_subscriptions
    from pybroker.broker.api import k72_push_telemetry as k72_push_telemetry
    from pybroker.broker.api import k74_list_config_resources as k74_list_config_resources
    from pybroker.broker.api import k75_describe_topic_partitions as k75_describe_topic_partitions
    from pybroker.broker.api import k76_share_group_heartbeat as k76_share_group_heartbeat
    from pybroker.broker.api import k77_share_group_describe as k77_share_group_describe
    from pybroker.broker.api import k78_share_fetch as k78_share_fetch
    from pybroker.broker.api import k79_share_acknowledge as k79_share_acknowledge
    from pybroker.broker.api import k80_add_raft_voter as k80_add_raft_voter
    from pybroker.broker.api import k81_remove_raft_voter as k81_remove_raft_voter
    from pybroker.broker.api import k88_streams_group_heartbeat as k88_streams_group_heartbeat
    from pybroker.broker.api import k89_streams_group_describe as k89_streams_group_describe
    from pybroker.broker.api import k90_describe_share_group_offsets as k90_describe_share_group_offsets
    from pybroker.broker.api import k91_alter_share_group_offsets as k91_alter_share_group_offsets
    from pybroker.broker.api import k92_delete_share_group_offsets as k92_delete_share_group_offsets
    from pybroker.broker.api import (
        k93_streams_group_topology_description_update as k93_streams_group_topology_description_update,
    )
    from pybroker.broker.api import k94_unregister_controller as k94_unregister_controller
    from pybroker.broker.api import k32143_undelete_topics as k32143_undelete_topics
    from pybroker.broker.api import k32144_truncate_topics as k32144_truncate_topics
    from pybroker.broker.api import k32145_describe_topic_history as k32145_describe_topic_history
    from pybroker.broker.api import k32146_describe_deletions as k32146_describe_deletions
    from pybroker.broker.api import k32147_describe_cluster_state as k32147_describe_cluster_state
    from pybroker.broker.api import k32148_delete_offsets as k32148_delete_offsets
    from pybroker.broker.api import k32149_purge_topics as k32149_purge_topics
    from pybroker.broker.api import k32150_ingest_begin as k32150_ingest_begin
    from pybroker.broker.api import k32152_ingest_commit as k32152_ingest_commit
    from pybroker.broker.api import k32153_ingest_abort as k32153_ingest_abort
    from pybroker.broker.api import k32154_list_ingests as k32154_list_ingests
    from pybroker.broker.api import k32155_transfer_quorum_leader as k32155_transfer_quorum_leader
    from pybroker.broker.api import share_records as share_records
    from pybroker.broker.api import topic_ids as topic_ids


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
