"""The settings of consumer groups, by broker and by group. They are dynamic, so each use reads them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pybroker.config.group_defs import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, effective_value


class ConsumerSettings:
    """Reads the broker's settings. `own`: returns the settings of one group, by its id."""

    def __init__(self, config: Mapping[str, Any], own: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._own = own

    def session_timeout_ms(self, group_id: str) -> int:
        """consumer.session.timeout.ms of the group, else group.consumer.session.timeout.ms"""
        return effective_value(SESSION_TIMEOUT, self._own(group_id), self._config)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """consumer.heartbeat.interval.ms of the group, else group.consumer.heartbeat.interval.ms"""
        return effective_value(HEARTBEAT_INTERVAL, self._own(group_id), self._config)

    def assignment_interval_ms(self, group_id: str) -> int:
        """consumer.assignment.interval.ms of the group, else group.consumer.assignment.interval.ms"""
        return effective_value(ASSIGNMENT_INTERVAL, self._own(group_id), self._config)

    @property
    def rebalance_heartbeat_interval_ms(self) -> int:
        """group.consumer.rebalance.heartbeat.interval.ms"""
        return int(self._config["group.consumer.rebalance.heartbeat.interval.ms"])

    @property
    def max_size(self) -> int:
        """group.consumer.max.size"""
        return int(self._config["group.consumer.max.size"])

    @property
    def assignors(self) -> Sequence[str]:
        """group.consumer.assignors. A member that chooses no assignor gets the first one of the list."""
        return tuple(self._config["group.consumer.assignors"])

    @property
    def regex_refresh_interval_ms(self) -> int:
        """group.consumer.regex.refresh.interval.ms"""
        return int(self._config["group.consumer.regex.refresh.interval.ms"])

    @property
    def upgrades(self) -> bool:
        """Whether group.consumer.migration.policy lets classic groups become consumer groups."""
        return str(self._config["group.consumer.migration.policy"]).lower() in ("bidirectional", "upgrade")

    @property
    def downgrades(self) -> bool:
        """Whether group.consumer.migration.policy lets consumer groups become classic groups."""
        return str(self._config["group.consumer.migration.policy"]).lower() in ("bidirectional", "downgrade")
