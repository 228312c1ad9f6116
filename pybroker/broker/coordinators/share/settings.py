"""The settings of share groups, by broker and by group. They are dynamic, so each use reads them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pybroker.config.group_defs import (
    COPY_DEAD_LETTERS,
    DEAD_LETTER_QUEUE,
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_DELIVERY_COUNT,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_ISOLATION_LEVEL,
    SHARE_LOCK_DURATION,
    SHARE_OFFSET_RESET,
    SHARE_RECORD_LOCKS,
    SHARE_RENEW,
    SHARE_SESSION_TIMEOUT,
    effective_text,
    effective_value,
)


class ShareSettings:
    """Reads the broker's settings. `own`: returns the settings of one group, by its id."""

    def __init__(self, config: Mapping[str, Any], own: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._own = own

    def session_timeout_ms(self, group_id: str) -> int:
        """share.session.timeout.ms of the group, else group.share.session.timeout.ms"""
        return effective_value(SHARE_SESSION_TIMEOUT, self._own(group_id), self._config)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """share.heartbeat.interval.ms of the group, else group.share.heartbeat.interval.ms"""
        return effective_value(SHARE_HEARTBEAT_INTERVAL, self._own(group_id), self._config)

    def assignment_interval_ms(self, group_id: str) -> int:
        """share.assignment.interval.ms of the group, else group.share.assignment.interval.ms"""
        return effective_value(SHARE_ASSIGNMENT_INTERVAL, self._own(group_id), self._config)

    def lock_duration_ms(self, group_id: str) -> int:
        """share.record.lock.duration.ms of the group, else group.share.record.lock.duration.ms"""
        return effective_value(SHARE_LOCK_DURATION, self._own(group_id), self._config)

    def auto_offset_reset(self, group_id: str) -> str:
        """share.auto.offset.reset"""
        return effective_text(SHARE_OFFSET_RESET, self._own(group_id))

    def read_committed(self, group_id: str) -> bool:
        """Return whether share.isolation.level is read_committed."""
        return effective_text(SHARE_ISOLATION_LEVEL, self._own(group_id)) == "read_committed"

    def deliveries_max(self, group_id: str) -> int:
        """share.delivery.count.limit of the group, else group.share.delivery.count.limit"""
        return effective_value(SHARE_DELIVERY_COUNT, self._own(group_id), self._config)

    def in_flight_max(self, group_id: str) -> int:
        """share.partition.max.record.locks of the group, else group.share.partition.max.record.locks"""
        return effective_value(SHARE_RECORD_LOCKS, self._own(group_id), self._config)

    def renews(self, group_id: str) -> bool:
        """share.renew.acknowledge.enable"""
        return effective_text(SHARE_RENEW, self._own(group_id)) == "true"

    def dead_letter_queue(self, group_id: str) -> str:
        """errors.deadletterqueue.topic.name; empty: the group has no queue."""
        return effective_text(DEAD_LETTER_QUEUE, self._own(group_id))

    def copies_dead_letters(self, group_id: str) -> bool:
        """errors.deadletterqueue.copy.record.enable"""
        return effective_text(COPY_DEAD_LETTERS, self._own(group_id)) == "true"

    @property
    def dead_letter_prefix(self) -> str:
        """errors.deadletterqueue.topic.name.prefix"""
        return str(self._config["errors.deadletterqueue.topic.name.prefix"])

    @property
    def creates_dead_letter_queues(self) -> bool:
        """errors.deadletterqueue.auto.create.topics.enable"""
        return bool(self._config["errors.deadletterqueue.auto.create.topics.enable"])

    @property
    def sessions_max(self) -> int:
        """group.share.max.share.sessions"""
        return int(self._config["group.share.max.share.sessions"])

    @property
    def max_size(self) -> int:
        """group.share.max.size"""
        return int(self._config["group.share.max.size"])
