"""Cached heartbeat responses and delegated commits for the members of one group.

Most heartbeats change nothing, and the response to the same request is the same. The coordinator answers such a
heartbeat only once. Data threads then repeat this response for requests with the same bytes
(`native/server/src/leases/cached_responses.rs`). A cached response never differs from the coordinator's own:

* The response depends on the group, topics and their leaders, settings and features. Before a group changes, the
  coordinator invalidates the group's cached responses, in the same step of the event loop. Clients learn about the
  change only afterwards. Other changes invalidate all cached responses of the broker: native code invalidates them when
  it updates the data threads, and when the metadata image is replaced. A heartbeat answered during the update counts as
  if it had come before the change.
* Only one thing depends on time: the coordinator removes members whose session has expired. Data threads record the
  time of a member's last heartbeat. When a session timer fires, the coordinator first reads that time, and invalidates
  the member's cached responses before it removes the member.
* Data threads check for each heartbeat whether the member is authorized to read the group.

The coordinator delegates a member's offset commits in the same way (`native/server/src/leases/delegated_commits.rs`).
It grants the data threads a lease for the topics that it has checked. The data threads then append the member's commits
for these topics, as long as neither the group nor the topics change. This module keeps the lease with the member's
cached responses. Before the coordinator writes tombstones or restores offsets from a deletion record, it revokes all
leases of the shard and then reads the offsets (`Offsets`). It grants no lease while such a write is pending
(`ShardLog.is_still`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class CacheEntry(Protocol):
    """A cached response or a commit lease (`native.CachedResponse`, `native.CommitLease`)."""

    def invalidate(self) -> None:
        """Invalidate the response or revoke the lease; data threads do not use it after this call."""
        ...

    def idle_ms(self) -> int:
        """Return the time in milliseconds since a data thread last used the entry, even if the entry has been
        invalidated."""
        ...


HEARTBEATS = "heartbeats"
COMMITS = "commits"
"""The kinds of requests whose responses are cached."""


class CachedResponses:
    """Cached responses and commit leases, by member id and kind of request."""

    __slots__ = ("_cached", "_heard")

    def __init__(self) -> None:
        self._cached: dict[str, dict[str, CacheEntry]] = {}
        self._heard: dict[str, dict[str, CacheEntry]] = {}
        """Member id → the cache entries that record when the member's last request arrived. Includes invalidated
        entries."""

    def keep(self, member_id: str, answer: CacheEntry, what: str = HEARTBEATS, *, heard: bool = True) -> None:
        """Cache a response, and replace the member's earlier response, which may belong to another connection.

        `heard`: requests of this kind extend the member's session.
        """
        cached = self._cached.setdefault(member_id, {})
        before = cached.get(what)
        if before is not None:
            before.invalidate()
        cached[what] = answer
        if heard:
            self._heard.setdefault(member_id, {})[what] = answer

    def cached(self, member_id: str, what: str) -> Any:
        """Return the cached response unless the coordinator has invalidated it."""
        return self._cached.get(member_id, {}).get(what)

    def invalidate(self) -> None:
        """Invalidate all responses. Call it before the group changes."""
        if self._cached:
            for member_id in list(self._cached):
                self._invalidate_of(member_id)

    def forget(self, member_id: str) -> None:
        """Drop the responses of a member that leaves the group."""
        self._invalidate_of(member_id)
        self._heard.pop(member_id, None)

    def session_left_ms(self, member_id: str, timeout_ms: int) -> int:
        """Return how many milliseconds of a member's session remain after its last request to a data thread.

        0: the session has expired, and the member's cached responses have been invalidated.
        """
        heard = self._heard.get(member_id)
        if heard is None:
            return 0
        if _idle_ms(heard) >= timeout_ms:
            self._invalidate_of(member_id)
        # Read the time again, because a heartbeat may have arrived before the invalidation.
        return max(timeout_ms - _idle_ms(heard), 0)

    def _invalidate_of(self, member_id: str) -> None:
        for answer in self._cached.pop(member_id, {}).values():
            answer.invalidate()


def _idle_ms(heard: Mapping[str, CacheEntry]) -> int:
    return min(answer.idle_ms() for answer in heard.values())
