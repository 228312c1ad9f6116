"""Counters of the group coordinator since the broker's start, for `observability/group_metrics.py`."""

from __future__ import annotations

import msgspec


class GroupStatistics(msgspec.Struct):
    """Counters that only increase. The coordinator's code updates them on the event loop's thread."""

    offset_commits: int = 0
    """Committed offsets that are durable; one request may commit several offsets."""
    offset_expirations: int = 0
    """Offsets whose retention has ended."""
    offset_deletions: int = 0
    """Offsets removed by a request, or together with their group or topic."""
    completed_rebalances: int = 0
    """Generations of classic groups with a stored assignment."""
    consumer_rebalances: int = 0
    """New target assignments of consumer groups."""
    joins_refused: int = 0
    """JoinGroups and heartbeats refused because the member's metadata is too large."""
    streams_rebalances: int = 0
    """New target assignments of streams groups."""
