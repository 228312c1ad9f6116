"""A table of settings: look-up by name, and the nearest known name for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pybroker.config.values import ConfigKey


class ConfigDef(Mapping[str, ConfigKey]):
    """An immutable table of settings by name, in the order in which they were written down."""

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


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    import difflib  # only a misspelt setting needs it; start time is a bar

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None
