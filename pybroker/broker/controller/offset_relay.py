"""Notifies brokers that a new leader has applied the change that they wait for. To do so, the leader of the metadata
log answers their waiting fetches immediately. See `broker.quorum.applied_offsets`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pybroker.broker.quorum.applied_offsets import AppliedOffsets

PAUSE_S = 0.005
"""Minimum number of seconds between two relays, because each relay goes to every broker."""


class OffsetRelay:
    """The relay of one controller; used on the loop's thread."""

    def __init__(self, offsets: AppliedOffsets, answer_fetches: Callable[[], None]) -> None:
        self._offsets = offsets
        self._answer_fetches = answer_fetches
        self._awaited: dict[int, list[int]] = {}
        """Broker → ascending end offsets of changes that made this broker a leader and that it has not applied yet."""
        self._pause: asyncio.TimerHandle | None = None
        self._due = False

    def expect(self, broker_ids: Iterable[int], offset: int) -> None:
        """Note that other brokers wait until each of these brokers has applied the log up to `offset`."""
        for broker_id in broker_ids:
            self._awaited.setdefault(broker_id, []).append(offset)

    def applied(self, broker_id: int, offset: int) -> None:
        """Process that a broker has applied the log up to `offset`. Send the applied offsets to the other brokers if
        they wait for this one."""
        awaited = self._awaited.get(broker_id)
        if awaited is None or awaited[0] > offset:
            return
        left = [end for end in awaited if end > offset]
        if left:
            self._awaited[broker_id] = left
        else:
            del self._awaited[broker_id]
        if self._pause is None:
            self._relay()
        else:
            self._due = True

    def lost(self, broker_id: int) -> None:
        """Stop expecting offsets of a fenced broker."""
        self._awaited.pop(broker_id, None)

    def stop(self) -> None:
        """Stop relaying."""
        if self._pause is not None:
            self._pause.cancel()

    def _relay(self) -> None:
        self._due = False
        self._offsets.relayed = self._offsets.version
        self._answer_fetches()
        self._pause = asyncio.get_running_loop().call_later(PAUSE_S, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        if self._due:
            self._relay()
