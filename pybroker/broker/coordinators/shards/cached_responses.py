"""Cached heartbeat responses and delegated commits for the members of one group.

Most heartbeats change nothing: same request, same response. The coordinator answers such a heartbeat once, and data
threads then repeat the response for the same bytes (`native/server/src/leases/cached_responses.rs`). A cached response
never differs from the coordinator's own answer:

* The response depends on the group, topics and their leaders, settings and features. Every change of the group first
  invalidates all of its cached responses, in the same step of the loop, before any client can learn of the change.
  Other changes invalidate all cached responses of the broker: native code does it when it updates the data threads,
  and when the cluster's metadata image is replaced. A heartbeat answered at that moment came before the change.
* Time matters only because the coordinator removes silent members. Data threads record when they last heard a
  member: a session that seems expired is measured from there, and its cached responses are invalidated before the
  member is removed.
* The member's permission to read for the group is checked for each heartbeat.

The coordinator delegates a member's offset commits in the same way (`native/server/src/leases/delegated_commits.rs`):
data threads append its commits for the topics that the coordinator has checked, under a lease, as long as the group
and its topics do not change. The lease is kept here with the member's cached responses. Before the coordinator writes
tombstones or restores offsets from a deletion record, it revokes all leases of the shard and then reads its offsets
(`Offsets`). It grants no lease while such a write is pending (`ShardLog.is_still`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class CachedResponse(Protocol):
    """A cached response or a commit lease (`native.StandingAnswer`, `native.CommitRight`)."""

    def take_back(self) -> None:
        """Invalidate it; it is no longer used when this returns."""
        ...

    def silent_ms(self) -> int:
        """Return the time since its last use, whether or not it has been invalidated."""
        ...


HEARTBEATS = "heartbeats"
COMMITS = "commits"
"""The kinds of requests that are answered."""


class CachedResponses:
    """Cached responses and commit leases by member id and kind of request."""

    __slots__ = ("_cached", "_heard")

    def __init__(self) -> None:
        self._cached: dict[str, dict[str, CachedResponse]] = {}
        self._heard: dict[str, dict[str, CachedResponse]] = {}
        """Records when each member was last heard, also after invalidation."""

    def keep(self, member_id: str, answer: CachedResponse, what: str = HEARTBEATS, *, heard: bool = True) -> None:
        """Cache a response in place of the member's earlier one, which may belong to another connection.

        `heard`: a request that uses it proves that the member is alive.
        """
        cached = self._cached.setdefault(member_id, {})
        before = cached.get(what)
        if before is not None:
            before.take_back()
        cached[what] = answer
        if heard:
            self._heard.setdefault(member_id, {})[what] = answer

    def cached(self, member_id: str, what: str) -> Any:
        """Return the cached response unless the coordinator has invalidated it."""
        return self._cached.get(member_id, {}).get(what)

    def invalidate(self) -> None:
        """Invalidate all responses before the group changes."""
        if self._cached:
            for member_id in list(self._cached):
                self._invalidate_of(member_id)

    def forget(self, member_id: str) -> None:
        """Forget a member that leaves the group."""
        self._invalidate_of(member_id)
        self._heard.pop(member_id, None)

    def session_left_ms(self, member_id: str, timeout_ms: int) -> int:
        """Return the rest of a member's session, measured from its last request to a data thread.

        0: the session has expired, and no cached response is valid.
        """
        heard = self._heard.get(member_id)
        if heard is None:
            return 0
        if _silent_ms(heard) >= timeout_ms:
            self._invalidate_of(member_id)
        # A heartbeat may have arrived between the two checks.
        return max(timeout_ms - _silent_ms(heard), 0)

    def _invalidate_of(self, member_id: str) -> None:
        for answer in self._cached.pop(member_id, {}).values():
            answer.take_back()


def _silent_ms(heard: Mapping[str, CachedResponse]) -> int:
    return min(answer.silent_ms() for answer in heard.values())
