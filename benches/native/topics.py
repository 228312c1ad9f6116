"""The same topics, known by name and by id: what lookups and messages are measured on."""

from __future__ import annotations

from functools import lru_cache

from benches.identity.requests import name_of
from pybroker.native import Uuid

COUNTS = [1_000, 100_000, 1_000_000]
"""Topics of one partition."""


@lru_cache(maxsize=1)
def topics(count: int) -> list[tuple[Uuid, str]]:
    """Ids and names of 30 characters."""
    return [(Uuid.random(), name_of(number)) for number in range(count)]
