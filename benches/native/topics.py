"""Topics by name and by id, for the cases of lookups and messages."""

from __future__ import annotations

from functools import lru_cache

from benches.identity.requests import name_of
from pybroker.native import Uuid

COUNTS = [1_000, 100_000, 1_000_000]
"""Numbers of topics, with one partition each."""


@lru_cache(maxsize=1)
def topics(count: int) -> list[tuple[Uuid, str]]:
    """Return ids and names of 30 characters."""
    return [(Uuid.random(), name_of(number)) for number in range(count)]
