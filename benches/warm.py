"""Warms up a broker until its figures are stable: a JVM compiles hot code for minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

STEADY = 0.05
RUNS = 3
SECONDS_MAX = 300.0
"""A figure that is not stable by then is used as it is, and the table says so."""


@dataclass(frozen=True, slots=True)
class Warmth:
    """The warm-up of a broker."""

    runs: int
    spread: float
    """Relative difference of the largest and smallest of the last RUNS runs; 0.05 is 5 %."""

    @property
    def steady(self) -> bool:
        """Return whether the figures were stable."""
        return self.runs >= RUNS and self.spread < STEADY

    def __str__(self) -> str:
        return f"{self.runs} runs, {self.spread:.0%}{'' if self.steady else ' (NOT STEADY)'}"


def until_steady(
    run: Callable[[], float], seconds_max: float = SECONDS_MAX, clock: Callable[[], float] = time.monotonic
) -> Warmth:
    """Load a broker by `run`, which returns its CPU per request or row, until the last RUNS figures differ by less than
    STEADY, for about `seconds_max` seconds at most."""
    figures: list[float] = []
    give_up = clock() + seconds_max
    while True:
        figures.append(run())
        warmth = Warmth(len(figures), _spread(figures[-RUNS:]))
        if warmth.steady or clock() > give_up:
            return warmth


def _spread(figures: list[float]) -> float:
    least = min(figures)
    return max(figures) / least - 1 if least > 0 else float("inf")
