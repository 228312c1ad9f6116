"""Counters of share partitions since the broker started, for metrics."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.broker.coordinators.share_partition.in_flight import AckBatch, AckType


class ShareStatistics:
    def __init__(self) -> None:
        self.acquired = 0
        self.dead_letters = 0
        """Records written to dead letter queues."""
        self.dead_letter_requests = 0
        self.dead_letter_requests_failed = 0
        self.acknowledged: dict[AckType, int] = dict.fromkeys(AckType, 0)

    def note_acquired(self, number: int) -> None:
        """Count records that a member acquired."""
        self.acquired += number

    def note_acknowledged(self, batches: Sequence[AckBatch]) -> None:
        """Count a member's acknowledgements."""
        known = {int(kind): kind for kind in AckType}
        for batch in batches:
            if len(batch.types) == 1:
                kind = known.get(batch.types[0])
                if kind is not None:
                    self.acknowledged[kind] += max(batch.last - batch.first + 1, 0)
                continue
            for number in batch.types:
                kind = known.get(number)
                if kind is not None:
                    self.acknowledged[kind] += 1
