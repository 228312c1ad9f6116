"""Limits how often a group gets a new target assignment: at most once per assignment interval (KIP-1263).

One assignment at the end of the interval covers all changes within it. A timer starts this assignment. Heartbeats
cannot start it: data threads may answer heartbeats that change nothing, and heartbeats of classic members never cause
an assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group_base.epoch_group import EpochGroup
from pybroker.broker.coordinators.shards.timers import TimerWheel

RETRY_MS = 1_000
"""Milliseconds before a failed write of a target assignment is tried again."""


class AssignmentInterval:
    """The assignment intervals of one shard's groups."""

    def __init__(
        self,
        clock: Clock,
        timers: TimerWheel,
        interval_ms: Callable[[EpochGroup[Any, Any]], int],
        over: Callable[[str], None],
    ) -> None:
        """interval_ms: returns the interval of a group.

        over: called with the id of a delayed group when its interval ends; the group may have its target assignment by
        then.
        """
        self._clock = clock
        self._timers = timers
        self._interval_ms = interval_ms
        self._over = over

    def left_ms(self, group: EpochGroup[Any, Any]) -> int:
        """Return how many milliseconds a group still has to wait for its next target assignment.

        Return 0 for a group without members, and if the broker's clock was set back.
        """
        since_ms = self._clock.wall_ms() - group.target_timestamp_ms
        if not group.members or not group.target_timestamp_ms or since_ms < 0:
            return 0
        return max(self._interval_ms(group) - since_ms, 0)

    def is_over(self, group: EpochGroup[Any, Any]) -> bool:
        """Return whether a group may get a target assignment now. If not, arrange that `over` is called at the end of
        its interval."""
        group_id, left_ms = group.group_id, self.left_ms(group)
        if left_ms:
            self._timers.schedule(_key(group_id), left_ms, lambda: self._over(group_id))
        return not left_ms

    def again(self, group_id: str, try_again: Callable[[], None]) -> None:
        """Call `try_again` after a delay, because the target assignment could not be written."""
        self._timers.schedule(_key(group_id), RETRY_MS, try_again)

    def forget(self, group_id: str) -> None:
        """Cancel the group's timer."""
        self._timers.cancel(_key(group_id))


def _key(group_id: str) -> tuple[str, str]:
    return "next target", group_id
