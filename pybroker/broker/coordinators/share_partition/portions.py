"""How much is given at a time of what was often given in vain, so that one bad record does not take its batch with it:
as Kafka's SharePartition does. Pure.

With the delivery count limit 10: a batch that was given five times is given in halves, then in quarters, eighths, and
so on, and each record alone for the last time. Of such a batch an answer has one portion and nothing else. A limit
below 3 leaves no room for that.
"""

from __future__ import annotations

from collections.abc import Callable

Batch = tuple[int, int]
"""The first and the last of the offsets that were given together for the first time."""

COUNT_MIN = 2
"""Deliveries in vain that are nothing out of the ordinary."""
EVERYTHING = 1 << 62


class Portion:
    """Of one answer."""

    def __init__(self, deliveries_max: int, often: Callable[[Batch], int]) -> None:
        """`often`: how often the record of a batch was delivered that was most often, of those that may be given."""
        self._often = often
        self._last_count = deliveries_max - 1 if deliveries_max > COUNT_MIN else None
        self._count_min = max(COUNT_MIN, -(-deliveries_max // 2))
        self._ordinary: Batch | None = None
        """Looked at, and given whole."""
        self._batch: Batch | None = None
        self._most: int | None = None
        self.is_full = False

    def room(self, batch: Batch | None, count: int, taken: int) -> int:
        """How many records of a batch that were delivered `count` times may go beside so many that are in the answer
        already; 0: none of these, and nothing that follows. `batch`: None of what is new."""
        if self.is_full or not self._concerns(batch, taken):
            return 0 if self.is_full else EVERYTHING
        if count == self._last_count:
            self.is_full = True
            return 0 if taken else 1
        if count >= self._count_min and self._most is None and batch is not None:
            self._most = max(1, (batch[1] - batch[0] + 1) >> (count - self._count_min + 1))
        if self._most is None:
            return EVERYTHING
        self.is_full = taken >= self._most
        return max(0, self._most - taken)

    def _concerns(self, batch: Batch | None, taken: int) -> bool:
        """Whether the batch is the one that is given with care; what else there is then has to wait."""
        if self._batch is not None:
            self.is_full = batch != self._batch
            return not self.is_full
        if batch is None or batch == self._ordinary:
            return False
        if self._often(batch) < self._count_min:
            self._ordinary = batch
            return False
        self._batch = batch
        self.is_full = taken > 0
        return not self.is_full
