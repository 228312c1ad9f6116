"""What the coordinator has done since the start, counted for its metrics (`observability/group_metrics.py`)."""

from __future__ import annotations

import msgspec


class GroupFigures(msgspec.Struct):
    """Counts that only grow. Written on the loop's thread, by whoever does the thing that is counted."""

    offset_commits: int = 0
    """Offsets (not requests) that were committed and are on disk."""
    offset_expirations: int = 0
    """Offsets whose retention was over."""
    offset_deletions: int = 0
    """Offsets that an administrator deleted, or that went with their group or their topic."""
    completed_rebalances: int = 0
    """Generations whose assignment is stored."""
    consumer_rebalances: int = 0
    """New targets of consumer groups."""
    joins_refused: int = 0
    """JoinGroups refused for the size of their metadata."""
    streams_rebalances: int = 0
    """New targets of streams groups."""
