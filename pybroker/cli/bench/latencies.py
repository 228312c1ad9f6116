"""Many durations in little memory: counted in classes that are 1 % wide, which is as exact as a percentile is told."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
WIDTH = math.log(1.01)
LEAST_S = 1e-7


class Latencies:
    """Durations in seconds."""

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()
        self._most_s = 0.0
        self.count = 0

    def add(self, seconds: float) -> None:
        """One duration."""
        seconds = max(seconds, LEAST_S)
        self._classes[math.floor(math.log(seconds) / WIDTH)] += 1
        self._most_s = max(self._most_s, seconds)
        self.count += 1

    def percentile(self, share: float) -> float | None:
        """What `share` percent stayed below, in seconds; 100: the longest. None: there are none."""
        if not self.count:
            return None
        wanted = max(1, math.ceil(self.count * share / 100))
        if wanted == self.count:
            return self._most_s
        seen = 0
        for each in sorted(self._classes):
            seen += self._classes[each]
            if seen >= wanted:
                return min(math.exp((each + 1) * WIDTH), self._most_s)
        raise AssertionError(share)

    def rows(self) -> list[dict[str, float | None]]:
        """A row for each of PERCENTILES, in milliseconds; none if nothing was measured."""
        if not self.count:
            return []
        return [{"percentile": share, "latency_ms": _ms(self.percentile(share))} for share in PERCENTILES]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


class Measured(NamedTuple):
    """What a run came to. size: bytes of all values."""

    records: int
    size: int
    seconds: float
    latencies: Latencies
