"""Refreshes the metadata of the topics that a producer writes to, and detects deleted topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pybroker.client.client_errors import KafkaError, broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicInfo
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.network import LOST, Network
from pybroker.client.connection.wake_loop import WakeLoop
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_GONE_AFTER = 3
"""A topic counts as deleted when leaders and metadata have reported it as missing this many times: a single broker's
metadata may be out of date."""


class TopicWatch:
    """Refreshes metadata until it is closed. wanted: returns the topic names to refresh. found: called with each topic
    that exists. gone: called with the reason for each missing or forbidden topic. Each refresh wakes `background`."""

    def __init__(
        self,
        network: Network,
        background: WakeLoop,
        backoff: Backoff,
        *,
        age_max_s: float,
        wanted: Callable[[], set[str]],
        found: Callable[[TopicInfo], object],
        gone: Callable[[str, KafkaError], None],
    ) -> None:
        self._network = network
        self._background = background
        self._backoff = backoff
        self._age_max_s = age_max_s
        self._wanted = wanted
        self._found = found
        self._gone = gone
        self._missing: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Refresh soon. Concurrent calls wait for the same request."""
        if self._looking is None or self._looking.done():
            self._looking = self._background.spawn(self._look())

    def refresh_if_old(self, now: float) -> None:
        """Refresh if the metadata is older than `metadata.max.age.ms`."""
        if now - self._network.metadata.updated_at > self._age_max_s:
            self.refresh()

    def exists(self, name: str) -> None:
        """Reset the count of missing reports, because the topic exists."""
        self._missing.pop(name, None)

    async def _look(self) -> None:
        names = self._wanted()
        try:
            cluster = await self._network.refresh(names)
        except (*LOST, KafkaError) as error:
            log.info("Metadata update failed: %s", error)
            await asyncio.sleep(self._backoff.next())
            self._background.wake()
            return
        for name in names:
            topic = cluster.by_name.get(name)
            if topic is None:
                continue
            if not topic.error_code:
                self._found(topic)
                continue
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._missing[name] = self._missing.get(name, 0) + 1
            if not is_retriable(topic.error_code) or self._missing.get(name, 0) >= _GONE_AFTER:
                self._missing.pop(name, None)
                self._gone(name, broker_error(topic.error_code, about=f"topic {name}"))
        self._background.wake()
