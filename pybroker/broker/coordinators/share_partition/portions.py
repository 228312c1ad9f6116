"""Smaller portions for batches that failed often, so that one bad record does not affect its whole batch. Pure.

As in Kafka's SharePartition: with a delivery count limit of 10, a batch that was delivered five times is delivered
in halves, then in quarters, eighths and so on, and each record alone for the last time. A response has one portion
of such a batch and nothing else. Limits below 3 leave no room for this.
"""

from __future__ import annotations

from collections.abc import Callable

Batch = tuple[int, int]
"""First and last offset of a first delivery."""

COUNT_MIN = 2
"""Delivery counts below this are ordinary."""
EVERYTHING = 1 << 62


class Portion:
    """The portion limit of one response."""

    def __init__(self, deliveries_max: int, often: Callable[[Batch], int]) -> None:
        """`often`: returns the highest delivery count of a batch's available records."""
        self._often = often
        self._last_count = deliveries_max - 1 if deliveries_max > COUNT_MIN else None
        self._count_min = max(COUNT_MIN, -(-deliveries_max // 2))
        self._ordinary: Batch | None = None
        """A checked batch that is delivered whole."""
        self._batch: Batch | None = None
        self._most: int | None = None
        self.is_full = False

    def room(self, batch: Batch | None, count: int, taken: int) -> int:
        """Return how many records of a batch with this delivery count may join `taken` records in the response.

        0: none of them, and nothing after them. `batch`: None for new records.
        """
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
        """Return whether the batch is the one delivered in portions; other records then have to wait."""
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
