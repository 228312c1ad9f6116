"""Missing topics and partitions of a consumer. The consumer waits for them, and logs warnings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from pybroker.client.client_errors import UnknownTopicError
from pybroker.client.cluster_metadata import Cluster, TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Seconds between two metadata requests for a missing topic."""
_LOG_AGAIN_S = 60.0
"""Seconds between two warnings about a missing topic."""


class MissingTopics:
    """The topics that were not in the last metadata. With `on.topic.missing=fail`, a missing topic is an error."""

    def __init__(self, config: ClientConfig) -> None:
        self._fails: bool = config["on.topic.missing"] == "fail"
        self._client_id: str = config["client.id"]
        self._logged_at: dict[str, float] = {}
        self._look_at = 0.0

    def due(self, cluster: Cluster, topics: Collection[str]) -> set[str]:
        """Return the missing topics if new metadata for them is due; otherwise an empty set."""
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return set()
        missing = {topic for topic in topics if _is_missing(cluster, topic)}
        if missing:
            self._look_at = now + _AGAIN_S
        return missing

    def log_warnings(self, cluster: Cluster, topics: Iterable[str], partitions: Iterable[TopicPartition] = ()) -> None:
        """Log which of these topics do not exist. With `on.topic.missing=fail`, raise UnknownTopicError instead."""
        absent = {topic: f"topic {topic} does not exist" for topic in topics if _is_missing(cluster, topic)}
        for each in partitions:
            count = len(cluster.partitions(each.topic))
            if count and each.partition >= count:
                absent[str(each)] = cluster.absence(each)
        if absent and self._fails:
            raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "; ".join(absent.values()))
        now = asyncio.get_running_loop().time()
        for what in list(self._logged_at):
            if what not in absent:
                del self._logged_at[what]
        for what, words in absent.items():
            if now - self._logged_at.get(what, float("-inf")) >= _LOG_AGAIN_S:
                self._logged_at[what] = now
                log.warning("[%s] %s; waiting for it", self._client_id, words)


def _is_missing(cluster: Cluster, topic: str) -> bool:
    found = cluster.by_name.get(topic)
    return found is not None and found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
