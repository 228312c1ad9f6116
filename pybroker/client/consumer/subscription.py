"""What a consumer is subscribed to: names, or a pattern that the cluster's topics are matched against."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from pybroker.client.cluster import Cluster
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network


class Subscription:
    """topics: the names subscribed now; None without a subscription."""

    def __init__(self, config: ClientConfig) -> None:
        self._age_max_s = config.seconds("metadata.max.age.ms")
        self._hides_internal: bool = config["exclude.internal.topics"]
        self.topics: frozenset[str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._matched: Cluster | None = None

    def choose(self, topics: Iterable[str] | re.Pattern[str] | str) -> None:
        """Replaces what was subscribed."""
        if isinstance(topics, re.Pattern):
            self._pattern, self.topics = topics, frozenset()
        else:
            self._pattern = None
            self.topics = frozenset((topics,) if isinstance(topics, str) else topics)
        self._matched = None

    def clear(self) -> None:
        """No subscription any more."""
        self.topics = self._pattern = None

    async def names(self, network: Network) -> frozenset[str]:
        """The names subscribed now. A pattern is matched against the whole cluster, which is asked for again when
        `metadata.max.age.ms` is over.
        """
        if self._pattern is not None:
            old = asyncio.get_running_loop().time() - network.metadata.updated_at > self._age_max_s
            if self._matched is None or old:
                await network.refresh(None)
            if network.cluster is not self._matched:
                hidden = network.cluster.internal_topics() if self._hides_internal else ()
                self.topics = frozenset(
                    name for name in network.cluster.topics() if self._pattern.fullmatch(name) and name not in hidden
                )
                self._matched = network.cluster
        assert self.topics is not None, "subscribed"
        return self.topics
