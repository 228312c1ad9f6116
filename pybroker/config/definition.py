"""A table of settings: lookup by name, and the nearest known name for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pybroker.config.setting_values import ConfigKey


class ConfigDef(Mapping[str, ConfigKey]):
    """An immutable table of settings by name, in the order of their definition."""

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self._keys: dict[str, ConfigKey] = {}
        for key in keys:
            if key.name in self._keys:
                raise ValueError(f"setting {key.name} is defined twice")
            self._keys[key.name] = key

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


NEAR = 2
"""Highest edit distance (insert, remove, replace, swap neighbours) between a misspelt name and its correction."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` probably means: the nearest name with the same prefix (the part before the
    first dot). If the rest is correct, the prefix may differ by one letter.
    """
    prefix, _, rest = name.partition(".")
    nearest: tuple[int, str] | None = None
    for candidate in known:
        of_candidate, _, rest_of_candidate = candidate.partition(".")
        if of_candidate == prefix or not (rest or rest_of_candidate):
            limit = NEAR
        elif rest and rest == rest_of_candidate:
            limit = 1
        else:
            continue
        if abs(len(candidate) - len(name)) <= limit:
            distance = _distance(name, candidate)
            if distance <= limit and (nearest is None or (distance, candidate) < nearest):
                nearest = distance, candidate
    return None if nearest is None else nearest[1]


def _distance(one: str, other: str) -> int:
    """Return the edit distance, in which a swap of two neighbours counts once (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        above, row, before = before, [at], row
        for to, wanted in enumerate(other, 1):
            best = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if at > 1 and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                best = min(best, above[to - 2] + 1)
            row.append(best)
    return row[-1]
