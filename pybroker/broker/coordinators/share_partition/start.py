"""The start offset of a group in a partition that the group has not read yet, as share.auto.offset.reset determines it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.share_partition.interfaces import Log, ShareGroupSettings
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.config.group_defs import duration_ms
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class StartContext(Protocol):
    @property
    def clock(self) -> Clock:
        """The broker's clock."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, whose executor reads from disk."""
        ...

    @property
    def log(self) -> Log:
        """The partitions of this broker."""
        ...

    @property
    def settings(self) -> ShareGroupSettings:
        """The settings of groups."""
        ...


async def first_offset(dependencies: StartContext, key: Key, committed: bool) -> int:
    """Return the start offset by the group's setting. `committed`: whether the group reads only committed records.

    Raise KafkaError NOT_LEADER_OR_FOLLOWER, or OFFSET_NOT_AVAILABLE if a new leader does not know the high watermark
    yet (KIP-207); NativeError.
    """
    reset = dependencies.settings.auto_offset_reset(key.group)
    ends = dependencies.log.offsets(key.topic_id, key.partition)
    if ends is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    latest = ends.last_stable_offset if committed else ends.high_watermark
    if reset == "earliest":
        return ends.log_start_offset
    if ends.lags_epoch_start:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "The high watermark has not reached the leader epoch's start.")
    back_ms = duration_ms(reset)
    if back_ms is None:
        return latest
    found = await dependencies.loop.run_in_executor(
        None,
        dependencies.log.offset_for_timestamp,
        key.topic_id,
        key.partition,
        dependencies.clock.wall_ms() - back_ms,
        committed,
    )
    return latest if found < 0 else found
