"""Removed topic names, in order of removal. A generation uses them to detect that a name has a new topic id."""

from __future__ import annotations

REMOVED_NAMES_MAX = 100_000
"""The number of removed names that are remembered, latest first.

A generation older than all of them is protected only by the topic ids that it recorded itself.
"""


class Removals:
    """Counter of topic removals; it shows which names were removed after a generation formed."""

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
        """Return whether `name` was removed after the counter was `count`."""
        return self._last.get(name, 0) > count
