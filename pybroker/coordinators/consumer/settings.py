"""The broker settings that consumer groups obey, read at each use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ConsumerSettings:
    """Over the broker's settings."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    @property
    def served(self) -> bool:
        """group.coordinator.rebalance.protocols has consumer groups"""
        return "consumer" in self._config["group.coordinator.rebalance.protocols"]

    @property
    def session_timeout_ms(self) -> int:
        """group.consumer.session.timeout.ms"""
        return int(self._config["group.consumer.session.timeout.ms"])

    @property
    def heartbeat_interval_ms(self) -> int:
        """group.consumer.heartbeat.interval.ms"""
        return int(self._config["group.consumer.heartbeat.interval.ms"])

    @property
    def max_size(self) -> int:
        """group.consumer.max.size"""
        return int(self._config["group.consumer.max.size"])

    @property
    def assignors(self) -> Sequence[str]:
        """group.consumer.assignors, the first one for members that ask for none"""
        return tuple(self._config["group.consumer.assignors"])

    @property
    def regex_refresh_interval_ms(self) -> int:
        """group.consumer.regex.refresh.interval.ms"""
        return int(self._config["group.consumer.regex.refresh.interval.ms"])

    @property
    def upgrades(self) -> bool:
        """group.consumer.migration.policy lets classic groups become consumer groups"""
        return str(self._config["group.consumer.migration.policy"]).lower() in ("bidirectional", "upgrade")

    @property
    def downgrades(self) -> bool:
        """group.consumer.migration.policy lets consumer groups become classic groups"""
        return str(self._config["group.consumer.migration.policy"]).lower() in ("bidirectional", "downgrade")
