"""Two settings of one broker against each other, round by round, so that both saw the same machine."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from tests.support.processes import data_threads

MEGABYTES = 20
"""Of 100 B records, one a request: 200,000 requests."""
CPU = "broker_cpu_us_per_request"


def compared(
    without: Callable[[], float], with_it: Callable[[], float], rounds: int
) -> tuple[float, float, float]:
    """Medians of both, and of the ratios of the rounds. Which of them goes first changes from round to round."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = with_it()
            pairs.append((without(), second))
        else:
            pairs.append((without(), with_it()))
    return (
        median(one for one, _ in pairs),
        median(other for _, other in pairs),
        median(other / one for one, other in pairs),
    )


def data_threads_ran(pid: int) -> int:
    """Nanoseconds that the data threads of a broker's process have run, all together."""
    return sum(ran for ran, *_ in data_threads(pid))


def verdict(ratio: float, most: float) -> str:
    """A ratio with its bar."""
    return f"{ratio:.3f} (bar ≤ {most}: {'met' if ratio <= most else 'MISSED'})"
