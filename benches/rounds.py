"""Compares two settings of one broker in alternating rounds: the machine is then in the same state for both."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from tests.support.processes import data_threads

MEGABYTES = 20
"""Volume of 100 B records, one per request: 200,000 requests."""
CPU = "broker_cpu_us_per_request"


def compared(
    without: Callable[[], float], with_it: Callable[[], float], rounds: int
) -> tuple[float, float, float]:
    """Return the medians of both, and of the ratios of the rounds. Their order alternates between rounds."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = with_it()
            pairs.append((without(), second))
        else:
            pairs.append((without(), with_it()))
    return (
        median(pair for pair, _ in pairs),
        median(other for _, other in pairs),
        median(other / pair for pair, other in pairs),
    )


def data_threads_ran(pid: int) -> int:
    """Return the nanoseconds of CPU of a broker's data threads, summed."""
    return sum(ran for ran, *_ in data_threads(pid))


def verdict(ratio: float, most: float) -> str:
    """Return a ratio with its bar."""
    return f"{ratio:.3f} (bar ≤ {most}: {'met' if ratio <= most else 'MISSED'})"
