"""Names of all topics that a person may see. They come from ListTopics, which is cheaper than Metadata for the whole
cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from pybroker.client import AdminClient, TopicListing

KEPT_S = 5.0
"""Seconds for which the pages of a list use the same names. A change made in the console drops the names at once."""


class TopicNames:
    """The list in name order, cached for KEPT_S."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lists: dict[bool, tuple[float, tuple[TopicListing, ...]]] = {}

    async def listings(self, admin: AdminClient, *, internal: bool) -> tuple[TopicListing, ...]:
        """Return all listings. `internal`: whether to include internal topics."""
        asked = self._now()
        taken, found = self._lists.get(internal, (-KEPT_S, ()))
        if asked - taken >= KEPT_S:
            listed = await admin.list_topics(list_internal=internal)
            found = tuple(sorted(listed.values(), key=lambda each: each.name))
            self._lists[internal] = asked, found
        return found

    def forget(self) -> None:
        """Drop the cached list, so that the next page sends a request."""
        self._lists.clear()
