"""Interfaces between the group coordinator and the broker (besides `shards.interfaces`), and between the modules of the
group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from pybroker.broker.coordinators.consumer.settings import ConsumerSettings
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.share.settings import ShareSettings
from pybroker.broker.coordinators.streams.settings import StreamsSettings
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.group.classic_group import ClassicGroup

OFFSETS_TOPIC = "__consumer_offsets"

NOTHING: Mapping[str, str] = MappingProxyType({})


class RemovedTopicView(Protocol):
    """A deleted incarnation of a topic."""

    @property
    def name(self) -> str:
        """The name of the topic when it was deleted."""
        ...

    @property
    def topic_id(self) -> Uuid: ...


class GroupSettings(Protocol):
    """The settings for rebalances. Some are dynamic, so each use reads them again."""

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms"""
        ...

    @property
    def max_size(self) -> int:
        """group.max.size"""
        ...


class GroupStore(Protocol):
    """Durable storage for generations."""

    def store(self, group: ClassicGroup, assignments: Mapping[str, bytes], done: Callable[[ErrorCode], None]) -> None:
        """Write the group's current generation. `done` gets NONE after the flush, or the error code for clients."""
        ...

    def formed(self, group: ClassicGroup) -> None:
        """Record the topic incarnations that exist when the group's generation forms."""
        ...

    def emptied(self, group: ClassicGroup) -> None:
        """Drop a group that was never stored, when its last assigned member id expires without a join."""
        ...


class GroupCoordinatorSettings:
    """The coordinator's settings. Some are dynamic, so each use reads them again.

    `own`: the settings of one group, by its id.
    """

    def __init__(self, config: Mapping[str, Any], own: Callable[[str], Mapping[str, str]] = lambda _: NOTHING) -> None:
        self._config = config
        self._own = own

    @property
    def session_timeout_ms_min(self) -> int:
        """group.min.session.timeout.ms"""
        return int(self._config["group.min.session.timeout.ms"])

    @property
    def session_timeout_ms_max(self) -> int:
        """group.max.session.timeout.ms"""
        return int(self._config["group.max.session.timeout.ms"])

    @property
    def initial_rebalance_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms"""
        return int(self._config["group.initial.rebalance.delay.ms"])

    @property
    def max_size(self) -> int:
        """group.max.size"""
        return int(self._config["group.max.size"])

    @property
    def max_metadata_bytes(self) -> int:
        """group.max.metadata.bytes"""
        return int(self._config["group.max.metadata.bytes"])

    @property
    def max_metadata_bytes_total(self) -> int:
        """group.max.metadata.bytes.total"""
        return int(self._config["group.max.metadata.bytes.total"])

    @property
    def offset_metadata_max_bytes(self) -> int:
        """offset.metadata.max.bytes"""
        return int(self._config["offset.metadata.max.bytes"])

    @property
    def offsets_retention_ms(self) -> int:
        """offsets.retention.minutes in milliseconds"""
        return int(self._config["offsets.retention.minutes"]) * 60_000

    @property
    def retention_check_interval_ms(self) -> int:
        """offsets.retention.check.interval.ms"""
        return int(self._config["offsets.retention.check.interval.ms"])

    @property
    def load_buffer_bytes(self) -> int:
        """offsets.load.buffer.size"""
        return int(self._config["offsets.load.buffer.size"])

    @property
    def commit_timeout_ms(self) -> int:
        """offsets.commit.timeout.ms"""
        return int(self._config["offsets.commit.timeout.ms"])

    def serves(self, kind: GroupKind) -> bool:
        """Return whether group.coordinator.rebalance.protocols includes this kind of group."""
        return kind in self._config["group.coordinator.rebalance.protocols"]

    @property
    def consumer(self) -> ConsumerSettings:
        """Settings of consumer groups (KIP-848)."""
        return ConsumerSettings(self._config, self._own)

    @property
    def share(self) -> ShareSettings:
        """Settings of share groups (KIP-932)."""
        return ShareSettings(self._config, self._own)

    @property
    def streams(self) -> StreamsSettings:
        """Settings of streams groups (KIP-1071)."""
        return StreamsSettings(self._config, self._own)
