"""Settings of Python's cyclic garbage collector for large tables. A full collection stops every thread. Scanning tables
with some hundred thousand entries but no cycles would waste this time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 20_000
"""Surplus of allocated over freed objects at which Python collects the youngest generation. A burst of some dozen
requests reaches Python's default of 700. The collector would then scan the same requests repeatedly, which costs 13 %
of the CPU time of heartbeats and commits.
"""


def for_a_broker() -> None:
    """Freeze the objects of a started broker, because they live as long as the broker. Call this once. Reference counts
    still free the objects of requests. The collector still finds the cycles of requests, after a few megabytes.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])


class AllocationReport:
    """Reports whether a piece of work has created many objects."""

    large = False
    """True if the work has created many long-lived objects."""


@contextmanager
def let_be() -> Iterator[AllocationReport]:
    """Disable collections during work that may create many objects. If it has created many (`large`), freeze all
    objects at the end. Reference counts still free frozen objects, but cycles that are already garbage at that moment
    are never freed.
    """
    report = AllocationReport()
    gc.disable()
    try:
        yield report
    finally:
        if report.large:
            gc.freeze()
        gc.enable()
