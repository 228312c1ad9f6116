"""The broker's settings as they are now: the file and command line, with the dynamic configs of the metadata store on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pybroker.config import BrokerConfig


class LiveConfig(Mapping[str, Any]):
    """Reads like a BrokerConfig; `current` is replaced whole when a dynamic config changes. Lives on the loop's thread."""

    def __init__(self, config: BrokerConfig) -> None:
        self.current = config
        self._cluster: Mapping[str, str] = {}
        self._broker: Mapping[str, str] = {}
        self._listeners: list[Callable[[BrokerConfig], None]] = []

    def __getitem__(self, name: str) -> Any:
        return self.current[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.current)

    def __len__(self) -> int:
        return len(self.current)

    def on_change(self, listener: Callable[[BrokerConfig], None]) -> None:
        """Calls `listener` with the new settings after each change."""
        self._listeners.append(listener)

    def set_dynamic(self, *, cluster: Mapping[str, str] | None = None, broker: Mapping[str, str] | None = None) -> None:
        """Replaces the cluster-wide or this broker's dynamic settings; None leaves a layer as it is."""
        self._cluster = self._cluster if cluster is None else cluster
        self._broker = self._broker if broker is None else broker
        self.current = self.current.with_dynamic(cluster=self._cluster, broker=self._broker)
        for listener in self._listeners:
            listener(self.current)
