"""Long work of a thread beside the broker's loop. Whoever waits for the interpreter's lock gets it 5 ms later from a
thread that never waits itself; between slices nobody holds it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

ITEMS = 64
"""About a millisecond of lines or points."""
PAUSE_S = 0.0002


def in_slices(items: Iterable[T]) -> Iterator[T]:
    """The items, with a pause after each `ITEMS` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS == 0:
            time.sleep(PAUSE_S)
