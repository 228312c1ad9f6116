"""Settings of Python's cyclic garbage collector for large tables: a full collection stops every thread, and scanning
tables of some hundred thousand entries without cycles is wasted time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 20_000
"""Surplus of allocated over freed objects that triggers a collection of the youngest generation. Python's 700 equals a
burst of some dozen requests: the collector would scan all requests repeatedly while they are answered, which costs 13 %
of the CPU of heartbeats and commits."""


def for_a_broker() -> None:
    """Freeze the objects of a started broker, which live as long as it does. Call it once. Reference counts free the
    objects of requests; the collector still finds cycles, after a few megabytes."""
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])


class Made:
    """Reports the amount of objects that a piece of work has created."""

    large = False
    """True if the work created many long-lived objects."""


@contextmanager
def let_be() -> Iterator[Made]:
    """Disable collections during work that may create many objects. If it did (`large`), freeze them at the end:
    reference counts still free them, but cycles that are garbage at that moment are never freed."""
    made = Made()
    gc.disable()
    try:
        yield made
    finally:
        if made.large:
            gc.freeze()
        gc.enable()
