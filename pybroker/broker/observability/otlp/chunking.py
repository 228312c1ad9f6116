"""Splits long work of a thread besides the loop's. A thread that waits for the GIL gets it only after 5 ms from a
thread that never blocks; pauses between slices release it earlier."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

ITEMS = 64
"""Items per slice: about a millisecond of lines or points."""
PAUSE_S = 0.0002


def in_slices(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, with a pause after each `ITEMS` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS == 0:
            time.sleep(PAUSE_S)
