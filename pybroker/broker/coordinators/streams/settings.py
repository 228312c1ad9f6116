"""The settings of streams groups, by broker and by group. They are dynamic, so each use reads them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pybroker.config.group_defs import (
    STREAMS_ASSIGNMENT_INTERVAL,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_INITIAL_DELAY,
    STREAMS_RACK_TAGS,
    STREAMS_RECOVERY_LAG,
    STREAMS_SESSION_TIMEOUT,
    STREAMS_STANDBYS,
    STREAMS_TASK_OFFSETS,
    effective_value,
    effective_words,
)

STANDBYS, TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
"""The assignor's settings, by the names under which Kafka stores them."""


class StreamsSettings:
    """Reads the broker's settings. `own`: returns the settings of one group, by its id."""

    def __init__(self, config: Mapping[str, Any], own: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._own = own

    def _effective_value(self, name: str, group_id: str) -> int:
        return effective_value(name, self._own(group_id), self._config)

    def session_timeout_ms(self, group_id: str) -> int:
        """streams.session.timeout.ms of the group, else group.streams.session.timeout.ms"""
        return self._effective_value(STREAMS_SESSION_TIMEOUT, group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """streams.heartbeat.interval.ms of the group, else group.streams.heartbeat.interval.ms"""
        return self._effective_value(STREAMS_HEARTBEAT_INTERVAL, group_id)

    def initial_delay_ms(self, group_id: str) -> int:
        """streams.initial.rebalance.delay.ms of the group, else group.streams.initial.rebalance.delay.ms"""
        return self._effective_value(STREAMS_INITIAL_DELAY, group_id)

    def assignment_interval_ms(self, group_id: str) -> int:
        """streams.assignment.interval.ms of the group, else group.streams.assignment.interval.ms"""
        return self._effective_value(STREAMS_ASSIGNMENT_INTERVAL, group_id)

    def task_offset_interval_ms(self, group_id: str) -> int:
        """streams.task.offset.interval.ms of the group, else group.streams.task.offset.interval.ms"""
        return self._effective_value(STREAMS_TASK_OFFSETS, group_id)

    def recovery_lag(self, group_id: str) -> int:
        """streams.acceptable.recovery.lag of the group, else group.streams.acceptable.recovery.lag"""
        return self._effective_value(STREAMS_RECOVERY_LAG, group_id)

    def standbys(self, group_id: str) -> int:
        """streams.num.standby.replicas of the group, else group.streams.num.standby.replicas"""
        return self._effective_value(STREAMS_STANDBYS, group_id)

    def tags(self, group_id: str) -> Sequence[str]:
        """streams.rack.aware.assignment.tags of the group, else group.streams.rack.aware.assignment.tags"""
        return effective_words(STREAMS_RACK_TAGS, self._own(group_id), self._config)

    def of_assignor(self, group_id: str) -> dict[str, str]:
        """Return the settings of the assignor. A change of them requires a new target assignment, so the group's record
        contains them."""
        values = {STANDBYS: str(self.standbys(group_id))}
        if tags := self.tags(group_id):
            values[TAGS] = ",".join(tags)
        return values

    @property
    def max_size(self) -> int:
        """group.streams.max.size"""
        return int(self._config["group.streams.max.size"])
