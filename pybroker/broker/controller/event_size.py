"""The size of an event. The controller decides small events on the event loop and large events in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from pybroker.broker.cluster.events import NewTopic

R = TypeVar("R")

MANY = 1_000
"""Number of elements that the event loop may process without a pause: each element takes 5 to 50 µs."""


def has_many_elements(event: Any) -> bool:
    """Return whether an event has at least `MANY` elements. Nested elements and the partitions of new topics count too.
    """
    return _count(event, MANY) >= MANY


async def run_apart(work: Callable[[], R], *, large: bool) -> R:
    """Run pure work. Large work runs in a thread, because it must not block the event loop, which serves clients."""
    return await asyncio.to_thread(work) if large else work()


def _count(value: Any, most: int) -> int:
    """Return the number of elements, but stop counting at `most`."""
    inner: Iterable[Any]
    count = 0
    if isinstance(value, NewTopic):
        count = value.num_partitions
        inner = (value.assignments, value.config)
    elif isinstance(value, msgspec.Struct):
        inner = (getattr(value, field) for field in value.__struct_fields__)
    elif isinstance(value, Mapping):
        count, inner = len(value), value.values()
    elif isinstance(value, tuple | list | frozenset | set):
        count, inner = len(value), value
    else:
        return 0
    for element in inner:
        if count >= most:
            break
        count += _count(element, most - count)
    return count
