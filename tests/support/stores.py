"""The metadata stores of the tests' clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pybroker.testing.cluster import Store

_chosen: list[Store] = ["zookeeper"]


def chosen() -> Store:
    """The store of clusters for which a test names none."""
    return _chosen[-1]


@contextmanager
def clusters_on(store: Store) -> Iterator[None]:
    """Put clusters that start in the block on this store, unless a test names another one."""
    _chosen.append(store)
    try:
        yield
    finally:
        _chosen.pop()
