"""Which topic names were removed, and when: what tells a generation that a name has changed hands."""

from __future__ import annotations

REMOVED_NAMES_MAX = 100_000
"""Names of removed topics that are remembered, the latest ones. A generation that is older than all of them is
protected only by the ids that it noted itself."""


class Removals:
    """Counts topic removals, so that a generation can tell which names it knew under an older id."""

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[str, int] = {}

    def note(self, name: str) -> None:
        """`name` was just removed."""
        self.count += 1
        self._last.pop(name, None)
        self._last[name] = self.count
        while len(self._last) > REMOVED_NAMES_MAX:
            del self._last[next(iter(self._last))]

    def since(self, name: str, count: int) -> bool:
        """Whether `name` was removed after the count was `count`."""
        return self._last.get(name, 0) > count
