"""Python's cyclic garbage collector and large tables: a look at everything holds every thread for as long as it takes,
and tables of some hundred thousand entries that hold no cycle are looked at in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 20_000
"""More objects that were made than went, before the young ones are looked at. Python's own 700 are what a burst of some
dozen requests holds, so that the collector would look at all requests again and again while they are answered: 13 % of
the CPU of heartbeats and commits."""


def for_a_broker() -> None:
    """Once, when a broker has started: what it is made of stays and is never looked at, and what requests make goes by
    itself when they are answered. Cycles are found as ever, after a few megabytes."""
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])


class Made:
    """What the work says of what it has made."""

    large = False
    """Very much, which stays."""


@contextmanager
def let_be() -> Iterator[Made]:
    """For work that may make very much: nothing is collected meanwhile. If it has, what is there at the end is never
    looked at again: it goes as ever when nothing refers to it, and only a cycle that nobody holds at that moment stays
    for good."""
    made = Made()
    gc.disable()
    try:
        yield made
    finally:
        if made.large:
            gc.freeze()
        gc.enable()
