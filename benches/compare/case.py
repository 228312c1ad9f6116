"""A case of a comparison: the measurement, the systems, and the bar of each figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
CPU_GB, CPU_REQUEST, RATE = "broker_cpu_s_per_gb", "broker_cpu_us_per_request", "requests_per_s"


@dataclass(frozen=True)
class Bar:
    """A limit for a figure: at most or at least `ratio` times the same figure of `against` (a system, or `limit`). With
    `against` "" the limit is `ratio` itself."""

    figure: str
    peer: str
    against: str
    ratio: float
    at_least: bool = False


@dataclass(frozen=True)
class Case:
    """One measurement: `measure` with a running system, or `live` if it starts and stops brokers itself."""

    name: str
    bars: tuple[Bar, ...]
    measure: Callable[[Any], Figures] | None = None
    live: Callable[[str, Path], Figures] | None = None
    limit: Callable[[Path], Figures] | None = None
    peers: tuple[str, ...] = ("kafka", "pybroker os", "pybroker")
    figures: tuple[str, ...] = field(default=())

    def shown(self) -> tuple[str, ...]:
        """Return the figures of the table: those with a bar, then the others."""
        return tuple(dict.fromkeys([*(bar.figure for bar in self.bars), *self.figures]))
