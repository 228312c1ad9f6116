"""Pauses between attempts."""

from __future__ import annotations

import random


class Backoff:
    """Pauses that double up to a limit, each with ±20 % jitter, so that clients do not all reconnect in the same
    moment. In seconds.
    """

    def __init__(self, first_s: float, last_s: float) -> None:
        self._first = first_s
        self._last = max(first_s, last_s)
        self._failures = 0

    def next(self) -> float:
        """Return the next pause in seconds."""
        pause = min(self._first * 2**self._failures, self._last)
        self._failures = min(self._failures + 1, 30)
        return float(pause * random.uniform(0.8, 1.2))

    def reset(self) -> None:
        """Start again at the shortest pause, after a success."""
        self._failures = 0
