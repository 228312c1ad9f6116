"""Keys of topics: ids (16 bytes) against names of 15, 30 and 100 characters (KIP-516: faster to compare, smaller, and
cheaper to allocate).

Each case is one native call on 10,000 keys, which makes the cost of the call negligible. The keys of a pair have
different addresses and differ, if at all, in their last byte, like names with a common prefix.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from pybroker.native import TopicKeys, Uuid

KEYS = 10_000
LENGTHS = {"name of 15": 15, "name of 30": 30, "name of 100": 100}
KINDS = ["id", *LENGTHS]
pytestmark = pytest.mark.checklist(10, 328)


def names(length: int, last: str = "x") -> list[str]:
    """Return names that differ in a number before the last character."""
    return [f"{number:0{length - 1}}{last}" for number in range(KEYS)]


def keys(kind: str, last: int = 1) -> TopicKeys:
    """Return keys in order; those of two calls differ only in the last byte, if `last` differs."""
    if kind == "id":
        return TopicKeys.of_ids([Uuid(number, last) for number in range(KEYS)])
    return TopicKeys.of_names(names(LENGTHS[kind], "wxyz"[last]))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_are_compared(benchmark: Any, kind: str) -> None:
    left, right = keys(kind), keys(kind)
    benchmark.group = "compare 10,000 pairs that are equal"
    assert benchmark(left.count_equal, right) == KEYS


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_put_in_order(benchmark: Any, kind: str) -> None:
    left, right = keys(kind, 1), keys(kind, 2)
    benchmark.group = "which of 10,000 pairs comes first"
    assert benchmark(left.count_less, right) == KEYS


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_sorted(benchmark: Any, kind: str) -> None:
    if kind == "id":
        shuffled = TopicKeys.of_ids([Uuid.random() for _ in range(KEYS)])
    else:
        shuffled = TopicKeys.of_names(random.Random(1).sample(names(LENGTHS[kind]), KEYS))
    benchmark.group = "sort 10,000"
    assert benchmark(shuffled.sorted) == KEYS


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_copied(benchmark: Any, kind: str) -> None:
    """Copying a name allocates, copying an id does not."""
    benchmark.group = "copy 10,000 and let them go"
    assert benchmark(keys(kind).copied) == KEYS


@pytest.mark.parametrize("kind", KINDS)
def test_python_compares_and_holds_keys(benchmark: Any, kind: str) -> None:
    """In Python the interpreter dominates a comparison; the size is the memory of one key."""
    if kind == "id":
        made: list[Any] = [Uuid(number, 1) for number in range(KEYS)]
        same: list[Any] = [Uuid(number, 1) for number in range(KEYS)]
    else:
        made, same = names(LENGTHS[kind]), names(LENGTHS[kind])
    benchmark.group = "Python: compare lists of 10,000 equal keys"
    benchmark.extra_info["bytes"] = sys.getsizeof(made[0])
    assert benchmark(made.__eq__, same)
