"""How often a group gets another target: once in its assignment interval at most (KIP-1263).

What happens to the group meanwhile is assigned together when the interval is over. A timer sees to that: the heartbeats
that tell nothing new may be answered by data threads, and classic members of a consumer group ask for nothing by
theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.timers import TimerWheel

RETRY_MS = 1_000
"""A target that could not be written is made again after this."""


class Targeted(Protocol):
    """A group whose members have a target."""

    group_id: str
    target_timestamp_ms: int
    """When the last one was made that anybody got; 0: there was none."""

    @property
    def members(self) -> Collection[str]:
        """Their ids."""
        ...


class AssignmentInterval:
    """See the module. Of the groups of one kind on one shard."""

    def __init__(
        self, clock: Clock, timers: TimerWheel, interval_ms: Callable[[str], int], over: Callable[[str], None]
    ) -> None:
        """interval_ms: of a group, by its id. over: told the id of a group that had to wait, when it need not any
        more; it may have its target by then."""
        self._clock = clock
        self._timers = timers
        self._interval_ms = interval_ms
        self._over = over

    def left_ms(self, group: Targeted) -> int:
        """How long a group still has to wait for a target. One without members waits for nothing, nor does one whose
        broker's clock was put back."""
        since_ms = self._clock.wall_ms() - group.target_timestamp_ms
        if not group.members or not group.target_timestamp_ms or since_ms < 0:
            return 0
        return max(self._interval_ms(group.group_id) - since_ms, 0)

    def is_over(self, group: Targeted) -> bool:
        """Whether a group may get a target now; if not, it is told of when it may."""
        group_id, left_ms = group.group_id, self.left_ms(group)
        if left_ms:
            self._timers.schedule(_key(group_id), left_ms, lambda: self._over(group_id))
        return not left_ms

    def again(self, group_id: str, try_again: Callable[[], None]) -> None:
        """The target could not be stored: the same once more, later."""
        self._timers.schedule(_key(group_id), RETRY_MS, try_again)

    def forget(self, group_id: str) -> None:
        """The group waits for nothing any more."""
        self._timers.cancel(_key(group_id))


def _key(group_id: str) -> tuple[str, str]:
    return "next target", group_id
