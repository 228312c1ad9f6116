"""Figures over the last minutes: taken while somebody looks, forgotten when nobody does."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

POINTS = 120
PAUSE_S = 2.0
"""Between two looks at the cluster, however many people look at the chart."""
FORGOTTEN_S = 120.0
SERIES_MAX = 24


@dataclass(frozen=True, slots=True)
class Chart:
    """rates: a second's, the oldest first. points, area: for SVG in a box of 240 × 60."""

    title: str
    rates: tuple[float, ...]
    points: str
    area: str

    @property
    def now(self) -> float:
        """The last one."""
        return self.rates[-1] if self.rates else 0.0

    @property
    def peak(self) -> float:
        """The highest one."""
        return max(self.rates, default=0.0)


class Rates:
    """Of counters that only grow, from one source."""

    def __init__(
        self, take: Callable[[], Awaitable[Mapping[str, float]]], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._take = take
        self._now = now
        self._taken: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=POINTS + 1)

    async def charts(self) -> list[Chart]:
        """Of what moves, the fastest first; of something if nothing moves. Takes a sample if the last one is old.
        Raises what the source raises.
        """
        now = self._now()
        if self._taken and now - self._taken[-1][0] > FORGOTTEN_S:
            self._taken.clear()
        if not self._taken or now - self._taken[-1][0] >= PAUSE_S:
            sample = await self._take()
            if not self._taken or self._now() > self._taken[-1][0]:
                self._taken.append((self._now(), sample))
        titles = sorted({title for _, sample in self._taken for title in sample})
        made = [_chart(title, self._rates(title)) for title in titles]
        made.sort(key=lambda each: (-each.peak, each.title))
        moving = [each for each in made if each.peak > 0]
        return (moving or made[:1])[:SERIES_MAX]

    def _rates(self, title: str) -> tuple[float, ...]:
        """A restart of the broker lets counters begin anew: that is no negative rate."""
        taken = list(self._taken)
        return tuple(
            max(after.get(title, 0.0) - before.get(title, after.get(title, 0.0)), 0.0) / (end - begin)
            for (begin, before), (end, after) in pairwise(taken)
        )


def _chart(title: str, rates: tuple[float, ...]) -> Chart:
    peak = max(rates, default=0.0) or 1.0
    left = POINTS - len(rates)
    step = 240 / (POINTS - 1)
    places = [(round((left + index) * step, 1), round(58 - 56 * rate / peak, 1)) for index, rate in enumerate(rates)]
    points = " ".join(f"{x},{y}" for x, y in places)
    area = f"{places[0][0]},60 {points} {places[-1][0]},60" if places else ""
    return Chart(title, rates, points, area)


class RatesByFilter:
    """Those that somebody has looked at lately: a few."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._kept: OrderedDict[str, Rates] = OrderedDict()

    def of(self, key: str, make: Callable[[], Rates]) -> Rates:
        """The one of that filter; the one that was looked at longest ago goes when there are too many."""
        found = self._kept.pop(key, None) or make()
        self._kept[key] = found
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found
