"""Smaller portions for batches that failed often, so that one bad record does not make its whole batch fail. Pure.

As in Kafka's SharePartition, with a delivery count limit of 10: after five deliveries, a batch is delivered in halves,
then in quarters, eighths and so on. At the last delivery each record is alone. A response with such a portion contains
nothing else. If the limit is below 3, batches are always delivered whole.
"""

from __future__ import annotations

from collections.abc import Callable

Batch = tuple[int, int]
"""First and last offset of a batch at its first delivery."""

COUNT_MIN = 2
"""Minimum delivery count for portions. Batches with a lower count are delivered whole."""
EVERYTHING = 1 << 62


class Portion:
    """The limit that portions set for one response."""

    def __init__(self, deliveries_max: int, often: Callable[[Batch], int]) -> None:
        """often: returns the highest delivery count of a batch's available records."""
        self._often = often
        self._last_count = deliveries_max - 1 if deliveries_max > COUNT_MIN else None
        self._count_min = max(COUNT_MIN, -(-deliveries_max // 2))
        self._ordinary: Batch | None = None
        """The last checked batch that is delivered whole."""
        self._batch: Batch | None = None
        self._most: int | None = None
        self.is_full = False

    def room(self, batch: Batch | None, count: int, taken: int) -> int:
        """Return how many records of a batch may be added to a response that already has `taken` records.

        `count`: the delivery count of the records. `batch`: None for records that have not been delivered before. 0:
        the response accepts no more records.
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
        """Return whether the batch is delivered in portions. Records of other batches then wait for the next response.
        """
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
