"""Splits a request with many elements into requests with few elements, and joins their responses.

Works for any API. The longest array is split; an element with a long array of its own is split into several elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pybroker.broker.requests.loop_sharing import ELEMENTS_A_SLICE

LEVELS_MAX = 10
"""Limit of nested arrays; no message has more."""


def pieces(message: Any, *, once: bool = False, levels: int = LEVELS_MAX) -> Iterator[tuple[Any, int]]:
    """Yield parts of a message, each with at most `ELEMENTS_A_SLICE` elements where its arrays can be split that way.

    Each part has a number: the number of levels on which its first element continues the last element of the previous
    part. If `once` is true, equal elements of the outer array count only once. `levels` is the number of nested arrays
    to split.
    """
    field = _longest(message)
    if field is None:
        yield message, 0
        return
    rest: dict[str, list[Any]] = {name: [] for name in _arrays(message) if name != field}
    elements = getattr(message, field)
    part: list[Any] = []
    room, first = ELEMENTS_A_SLICE, True

    def cut(with_elements: list[Any]) -> Any:
        # Only the first part contains the other arrays, so that they are handled only once.
        nonlocal first
        values = {field: with_elements} if first else {**rest, field: with_elements}
        first = False
        return msgspec.structs.replace(message, **values)

    for element in _distinct(elements) if once else elements:
        weight = _weight(element)
        if weight > room and part:
            yield cut(part), 0
            part, room = [], ELEMENTS_A_SLICE
        if weight <= room or levels == 1:
            part.append(element)
            room -= weight
            continue
        depth = 0
        for piece, deeper in pieces(element, levels=levels - 1):
            yield cut([piece]), depth + deeper
            depth = 1
    if part or first:
        yield cut(part), 0


def join(whole: Any, part: Any, depth: int) -> None:
    """Append a part's response to the joined responses of earlier parts. `depth` is the number that `pieces` yielded
    with the part.
    """
    for field in whole.__struct_fields__:
        mine, more = getattr(whole, field), getattr(part, field)
        if isinstance(mine, list) and isinstance(more, list):
            if depth and mine and more and isinstance(mine[-1], msgspec.Struct):
                join(mine[-1], more[0], depth - 1)
                more = more[1:]
            mine.extend(more)
        elif not mine and more:
            # If one part fails as a whole, the joined response fails as a whole too.
            setattr(whole, field, more)


def outer_elements(message: Any) -> int:
    """Return the number of elements of the message's longest outer array."""
    field = _longest(message)
    return 0 if field is None else len(getattr(message, field))


def _arrays(message: Any) -> list[str]:
    return [field for field in message.__struct_fields__ if isinstance(getattr(message, field), list)]


def _longest(message: Any) -> str | None:
    # Count only the outer elements. Counting nested elements would take as long as the work that is split.
    return max(_arrays(message), key=lambda field: len(getattr(message, field)), default=None)


def _weight(value: Any, most: int = ELEMENTS_A_SLICE) -> int:
    """Return the number of elements in a value, including the value itself. Stop counting when the number exceeds
    `most`.
    """
    count = 1
    if isinstance(value, list):
        if not value or not isinstance(value[0], msgspec.Struct):
            return 1 + len(value)
        inner: Iterable[Any] = value
    elif isinstance(value, msgspec.Struct):
        inner = [getattr(value, field) for field in _arrays(value)]
    else:
        return 1
    for element in inner:
        count += _weight(element, most - count)
        if count > most:
            break
    return count


def _distinct(elements: list[Any]) -> Iterator[Any]:
    seen = set()
    for element in elements:
        key = _key(element)
        if key not in seen:
            seen.add(key)
            yield element


def _key(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return tuple(_key(getattr(value, field)) for field in value.__struct_fields__)
    return tuple(map(_key, value)) if isinstance(value, list) else value
