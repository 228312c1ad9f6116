"""A consumer's subscription: topic names, or a pattern for the cluster's topics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from pybroker.client.cluster_metadata import Cluster
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network

_LETTERS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_SHARED = re.IGNORECASE | re.MULTILINE | re.DOTALL
"""Flags that have the same meaning in Python's regular expressions and in RE2, which coordinators use (KIP-848)."""
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Subscription:
    """topics: the names subscribed now; None if there is no subscription."""

    def __init__(self, config: ClientConfig) -> None:
        self._age_max_s = config.seconds("metadata.max.age.ms")
        self._hides_internal: bool = config["exclude.internal.topics"]
        self.topics: frozenset[str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._matched: Cluster | None = None

    def choose(self, topics: Iterable[str] | re.Pattern[str] | str) -> None:
        """Replace the subscription."""
        if isinstance(topics, re.Pattern):
            self._pattern, self.topics = topics, frozenset()
        else:
            self._pattern = None
            self.topics = frozenset((topics,) if isinstance(topics, str) else topics)
        self._matched = None

    def clear(self) -> None:
        """Drop the subscription."""
        self.topics = self._pattern = None

    @property
    def regex(self) -> str | None:
        """Return the pattern for the coordinator, which matches whole names. Return None if the subscription has names,
        or if RE2 would match the pattern differently.
        """
        pattern = self._pattern
        if pattern is None or pattern.flags & ~(_SHARED | re.UNICODE):
            return None
        if self._hides_internal and any(pattern.fullmatch(name) for name in _INTERNAL):
            return None  # A coordinator would also match internal topics.
        letters = "".join(letter for flag, letter in _LETTERS.items() if pattern.flags & flag)
        text = pattern.pattern
        return f"(?{letters}){text}" if letters and not text.startswith("(?") else text

    async def names(self, network: Network) -> frozenset[str]:
        """Return the names that are subscribed now. A pattern is matched against all topics of the cluster; metadata
        older than `metadata.max.age.ms` is refreshed before.
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
