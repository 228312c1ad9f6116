"""The write fence for offset commits: a topic that is about to be deleted accepts no commits.

The deletion record therefore contains every commit that was accepted.
"""

from __future__ import annotations

from pybroker.native import Uuid


class CommitFence:
    """The fenced topics. `hold` calls are counted: a topic accepts commits again after as many calls of `release`."""

    def __init__(self) -> None:
        self._held: dict[Uuid, int] = {}
        """Topic id → number of holds."""

    def __contains__(self, topic_id: Uuid) -> bool:
        return topic_id in self._held

    def hold(self, topic_id: Uuid) -> None:
        """Refuse commits for the topic until `release` is called."""
        self._held[topic_id] = self._held.get(topic_id, 0) + 1

    def release(self, topic_id: Uuid) -> None:
        """Release one `hold`."""
        left = self._held.get(topic_id, 0) - 1
        if left > 0:
            self._held[topic_id] = left
        else:
            self._held.pop(topic_id, None)
