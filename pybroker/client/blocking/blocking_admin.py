"""The blocking `AdminClient`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, TypeVar

from pybroker.client.admin import admin_client as admin
from pybroker.client.blocking.blocking_results import (
    CreateTopicsResult,
    DeleteTopicsResult,
    DescribeTopicsResult,
    KeyedResult,
)
from pybroker.client.blocking.event_loop import BlockingClient, Given, made, run, waiting

Inner = TypeVar("Inner")
Outer = TypeVar("Outer")


def answered(
    method: Callable[Concatenate[Any, Given], Inner], wrap: Callable[[Inner], Outer]
) -> Callable[Concatenate[Any, Given], Outer]:
    """Return the blocking form of a method about several items. The call returns when all items have completed. It then
    raises the first failure, unless the client was created with `raise_errors=False`.
    """

    @functools.wraps(method)
    def call(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Outer:
        async def there() -> Inner:
            result = method(self._inner, *args, **named)
            futures = result.futures()  # type: ignore[attr-defined]  # results of several items have it
            if futures:
                await asyncio.wait(futures)
            if self.raise_errors:
                for future in futures:
                    future.result()
            return result

        return wrap(run(there()))

    return call


class AdminClient(BlockingClient):
    """The blocking `pybroker.client.AdminClient`.

    raise_errors: whether calls about several items raise the first failure; if False, the failures are in the futures
    of the result.
    """

    def __init__(self, config: Mapping[str, Any], *, raise_errors: bool = True) -> None:
        self._inner = run(made(admin.AdminClient, config))
        self.raise_errors = raise_errors

    close = waiting(admin.AdminClient.close)

    send = waiting(admin.AdminClient.send)
    describe_cluster = waiting(admin.AdminClient.describe_cluster)
    describe_cluster_state = waiting(admin.AdminClient.describe_cluster_state)
    create_topics = answered(admin.AdminClient.create_topics, CreateTopicsResult)
    delete_topics = answered(admin.AdminClient.delete_topics, DeleteTopicsResult)
    describe_topics = answered(admin.AdminClient.describe_topics, DescribeTopicsResult)
    list_topics = waiting(admin.AdminClient.list_topics)
    list_topics_page = waiting(admin.AdminClient.list_topics_page)
    undelete_topics = answered(admin.AdminClient.undelete_topics, KeyedResult)
    purge_topics = answered(admin.AdminClient.purge_topics, KeyedResult)
    truncate_topics = answered(admin.AdminClient.truncate_topics, KeyedResult)
    describe_topic_history = answered(admin.AdminClient.describe_topic_history, KeyedResult)
    describe_deletions = waiting(admin.AdminClient.describe_deletions)
    list_ingests = waiting(admin.AdminClient.list_ingests)
    abort_ingest = waiting(admin.AdminClient.abort_ingest)
    create_partitions = answered(admin.AdminClient.create_partitions, KeyedResult)
    describe_configs = answered(admin.AdminClient.describe_configs, KeyedResult)
    incremental_alter_configs = answered(admin.AdminClient.incremental_alter_configs, KeyedResult)
    describe_log_dirs = waiting(admin.AdminClient.describe_log_dirs)
    alter_replica_log_dirs = answered(admin.AdminClient.alter_replica_log_dirs, KeyedResult)
    list_offsets = answered(admin.AdminClient.list_offsets, KeyedResult)
    elect_leaders = waiting(admin.AdminClient.elect_leaders)
    alter_partition_reassignments = answered(admin.AdminClient.alter_partition_reassignments, KeyedResult)
    describe_metadata_quorum = waiting(admin.AdminClient.describe_metadata_quorum)
    add_raft_voter = waiting(admin.AdminClient.add_raft_voter)
    remove_raft_voter = waiting(admin.AdminClient.remove_raft_voter)
    transfer_quorum_leader = waiting(admin.AdminClient.transfer_quorum_leader)
    unregister_broker = waiting(admin.AdminClient.unregister_broker)
    list_partition_reassignments = waiting(admin.AdminClient.list_partition_reassignments)
    delete_records = answered(admin.AdminClient.delete_records, KeyedResult)
    list_groups = waiting(admin.AdminClient.list_groups)
    describe_groups = answered(admin.AdminClient.describe_groups, KeyedResult)
    delete_groups = answered(admin.AdminClient.delete_groups, KeyedResult)
    list_consumer_group_offsets = waiting(admin.AdminClient.list_consumer_group_offsets)
    alter_consumer_group_offsets = answered(admin.AdminClient.alter_consumer_group_offsets, KeyedResult)
    delete_consumer_group_offsets = answered(admin.AdminClient.delete_consumer_group_offsets, KeyedResult)
    list_share_group_offsets = waiting(admin.AdminClient.list_share_group_offsets)
    alter_share_group_offsets = answered(admin.AdminClient.alter_share_group_offsets, KeyedResult)
    delete_share_group_offsets = answered(admin.AdminClient.delete_share_group_offsets, KeyedResult)
    list_transactions = waiting(admin.AdminClient.list_transactions)
    describe_transactions = answered(admin.AdminClient.describe_transactions, KeyedResult)
    describe_producers = answered(admin.AdminClient.describe_producers, KeyedResult)
    abort_transaction = waiting(admin.AdminClient.abort_transaction)
    terminate_transaction = waiting(admin.AdminClient.terminate_transaction)
    find_hanging_transactions = waiting(admin.AdminClient.find_hanging_transactions)
    create_acls = answered(admin.AdminClient.create_acls, KeyedResult)
    describe_acls = waiting(admin.AdminClient.describe_acls)
    describe_client_quotas = waiting(admin.AdminClient.describe_client_quotas)
    alter_client_quotas = answered(admin.AdminClient.alter_client_quotas, KeyedResult)
    delete_acls = answered(admin.AdminClient.delete_acls, KeyedResult)
    describe_user_scram_credentials = waiting(admin.AdminClient.describe_user_scram_credentials)
    alter_user_scram_credentials = answered(admin.AdminClient.alter_user_scram_credentials, KeyedResult)
