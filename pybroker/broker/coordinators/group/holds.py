"""Topics for which no commit is taken: they are about to be deleted, and what their record keeps is all there is."""

from __future__ import annotations

from pybroker.native import Uuid


class Holds:
    """A topic is held until whoever held it has released it."""

    def __init__(self) -> None:
        self._held: dict[Uuid, int] = {}
        """By how many at once."""

    def __contains__(self, topic_id: Uuid) -> bool:
        return topic_id in self._held

    def hold(self, topic_id: Uuid) -> None:
        """From now on."""
        self._held[topic_id] = self._held.get(topic_id, 0) + 1

    def release(self, topic_id: Uuid) -> None:
        """Takes a `hold` back."""
        left = self._held.get(topic_id, 0) - 1
        if left > 0:
            self._held[topic_id] = left
        else:
            self._held.pop(topic_id, None)
