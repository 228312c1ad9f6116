"""Names of removed topics, in order of removal. They show a generation that a topic name has a new topic id."""

from __future__ import annotations

REMOVED_NAMES_MAX = 100_000
"""Limit of removed names in memory; the oldest are dropped first.

A generation older than all names in memory can compare only the topic ids that it recorded itself.
"""


class Removals:
    """Counter of topic removals. It shows which names were removed after a generation formed."""

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str, int] = {}

    def note(self, name: str) -> None:
        """Record the removal of `name`."""
        self.count += 1
        self._last.pop(name, None)
        self._last[name] = self.count
        while len(self._last) > REMOVED_NAMES_MAX:
            del self._last[next(iter(self._last))]

    def since(self, name: str, count: int) -> bool:
        """Return whether `name` was removed after the counter had the value `count`."""
        return self._last.get(name, 0) > count
