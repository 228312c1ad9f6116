"""Counters of the group coordinator since the start, for its metrics (`observability/group_metrics.py`)."""

from __future__ import annotations

import msgspec


class GroupStatistics(msgspec.Struct):
    """Counters that only grow. Written on the event loop's thread by the code that does the counted work."""

    offset_commits: int = 0
    """Offsets (not requests) whose commit is durable."""
    offset_expirations: int = 0
    """Offsets whose retention has passed."""
    offset_deletions: int = 0
    """Offsets removed by an administrator, or with their group or topic."""
    completed_rebalances: int = 0
    """Generations whose assignment is stored."""
    consumer_rebalances: int = 0
    """New targets of consumer groups."""
    joins_refused: int = 0
    """JoinGroups, and heartbeats of other protocols, refused for the size of what the member says."""
    streams_rebalances: int = 0
    """New targets of streams groups."""
