"""A broker is warm when its figures stand still: a JVM compiles what it runs often, for minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

STEADY = 0.05
RUNS = 3
SECONDS_MAX = 300.0
"""A figure that does not settle by then is taken as it is, and the table says so."""


@dataclass(frozen=True, slots=True)
class Warmth:
    """How a broker was loaded before anything counted."""

    runs: int
    spread: float
    """Of the last RUNS runs: how much the largest exceeds the least; 0.05 are 5 %."""

    @property
    def steady(self) -> bool:
        """Whether it was warm."""
        return self.runs >= RUNS and self.spread < STEADY

    def __str__(self) -> str:
        return f"{self.runs} runs, {self.spread:.0%}{'' if self.steady else ' (NOT STEADY)'}"


def until_steady(
    run: Callable[[], float], seconds_max: float = SECONDS_MAX, clock: Callable[[], float] = time.monotonic
) -> Warmth:
    """Loads a broker by `run`, which gives its CPU a request or row, until the last RUNS figures differ by less than
    STEADY, at most about `seconds_max` seconds long."""
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
