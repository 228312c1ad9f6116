"""Results of blocking calls about several items; all items are complete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pybroker.client.admin import admin_results
from pybroker.client.blocking.event_loop import waiting

Key = TypeVar("Key")
Value = TypeVar("Value")


class KeyedResult(Generic[Key, Value]):
    """The results of several items, which have all completed."""

    def __init__(self, inner: admin_results.KeyedResult[Key, Value]) -> None:
        self._inner = inner

    def values(self) -> Mapping[Key, asyncio.Future[Value]]:
        """Return item → finished future. `result()` of the future returns the value or raises; `exception()` returns
        the failure or None.
        """
        return self._inner.values()

    def all(self) -> dict[Key, Value]:
        """Return item → value, or raise the first failure."""
        return {key: future.result() for key, future in self._inner.values().items()}


class CreateTopicsResult(KeyedResult[str, admin_results.TopicMetadataAndConfig]):
    """The blocking `pybroker.client.CreateTopicsResult`."""

    topic_id = waiting(admin_results.CreateTopicsResult.topic_id)
    num_partitions = waiting(admin_results.CreateTopicsResult.num_partitions)
    replication_factor = waiting(admin_results.CreateTopicsResult.replication_factor)
    config = waiting(admin_results.CreateTopicsResult.config)


class DescribeTopicsResult:
    """The blocking `pybroker.client.DescribeTopicsResult`."""

    def __init__(self, inner: admin_results.DescribeTopicsResult) -> None:
        self._inner = inner
        self.topic_id_values = inner.topic_id_values
        self.topic_name_values = inner.topic_name_values
        self.values = inner.values

    all_topic_ids = waiting(admin_results.DescribeTopicsResult.all_topic_ids)
    all_topic_names = waiting(admin_results.DescribeTopicsResult.all_topic_names)

    def all(self) -> dict[str, Any]:
        """Deprecated: use `all_topic_names`."""
        admin_results.deprecated("all()", "all_topic_names()")
        return self.all_topic_names()


class DeleteTopicsResult:
    """The blocking `pybroker.client.DeleteTopicsResult`."""

    def __init__(self, inner: admin_results.DeleteTopicsResult) -> None:
        self._inner = inner
        self.topic_id_values = inner.topic_id_values
        self.topic_name_values = inner.topic_name_values
        self.values = inner.values

    all = waiting(admin_results.DeleteTopicsResult.all)
