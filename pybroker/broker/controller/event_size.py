"""The size of an event: the controller decides small events on the event loop and large ones in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pybroker.broker.cluster.events import NewTopic

MANY = 1_000
"""Elements that the event loop handles without a pause: deciding about one takes 5 to 50 µs."""


def has_many_elements(event: Any) -> bool:
    """Return whether an event has at least `MANY` elements, nested ones and partitions of new topics included."""
    return _count(event, MANY) >= MANY


def _count(value: Any, most: int) -> int:
    """Return the number of elements. Stop counting when it reaches `most`."""
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
