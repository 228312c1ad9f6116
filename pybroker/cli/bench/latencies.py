"""Many durations in little memory. Durations are counted in classes of 1 % width, which is the precision of the
reported percentiles.
"""

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
        """Add one duration."""
        seconds = max(seconds, LEAST_S)
        self._classes[math.floor(math.log(seconds) / WIDTH)] += 1
        self._most_s = max(self._most_s, seconds)
        self.count += 1

    def percentile(self, share: float) -> float | None:
        """Return the duration in seconds that `share` percent of the durations do not exceed; 100 returns the longest.
        None if there are no durations."""
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
        """Return a row for each of PERCENTILES, in milliseconds; none without durations."""
        if not self.count:
            return []
        return [{"percentile": share, "latency_ms": _ms(self.percentile(share))} for share in PERCENTILES]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


class RunFigures(NamedTuple):
    """The result of a run. `size` is the bytes of all values."""

    records: int
    size: int
    seconds: float
    latencies: Latencies
