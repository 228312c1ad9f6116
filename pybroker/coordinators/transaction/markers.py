"""Markers for partitions that are led here, whoever coordinates the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Protocol

from pybroker.clock import Clock
from pybroker.coordinators.transaction.ports import Marker
from pybroker.coordinators.transaction.transaction import VERSION_2, Part
from pybroker.errors import KafkaError
from pybroker.native import Completion, Uuid
from pybroker.protocol.error_codes import ErrorCode


class MarkerAppends(Protocol):
    """Appends of markers (`coordinators.shards.appends`)."""

    def append_marker(
        self, topic_id: Uuid, partition: int, marker: tuple[int, int, int], timestamp_ms: int, *,
        committed: bool, raised: bool,
    ) -> asyncio.Future[Completion]:
        """The future is done when the marker is committed; KafkaError otherwise. `raised`: its epoch is above that of
        the transaction's records."""
        ...


class OffsetsListener(Protocol):
    """Who has offsets that wait for markers."""

    def transaction_ending(self, topic_id: Uuid, partition: int, producer_id: int) -> None:
        """A marker is on its way to a partition."""
        ...

    def transaction_ended(
        self, topic_id: Uuid, partition: int, producer_id: int, at: int, *, committed: bool
    ) -> None:
        """It is on disk at offset `at`."""
        ...


class LocalMarkers:
    """Writes markers to partitions that this broker leads."""

    def __init__(self, appends: MarkerAppends, offsets: OffsetsListener, clock: Clock) -> None:
        self._appends = appends
        self._offsets = offsets
        self._clock = clock

    async def write(self, marker: Marker, parts: Sequence[Part]) -> list[ErrorCode]:
        """An error code for each partition; NONE once its marker is committed."""
        return await self.begin(marker, parts)

    def begin(self, marker: Marker, parts: Sequence[Part]) -> Awaitable[list[ErrorCode]]:
        """`write` whose markers are in the logs when this returns; to be awaited."""
        started = [self._start(marker, part) for part in parts]
        return self._all_ended(marker, parts, started)

    async def _all_ended(
        self, marker: Marker, parts: Sequence[Part], started: Sequence[asyncio.Future[Completion]]
    ) -> list[ErrorCode]:
        return [await self._ended(marker, part, future) for part, future in zip(parts, started, strict=True)]

    def _start(self, marker: Marker, part: Part) -> asyncio.Future[Completion]:
        self._offsets.transaction_ending(part.topic_id, part.partition, marker.producer_id)
        return self._appends.append_marker(
            part.topic_id,
            part.partition,
            (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch),
            self._clock.wall_ms(),
            committed=marker.committed,
            raised=marker.version >= VERSION_2,
        )

    async def _ended(self, marker: Marker, part: Part, future: asyncio.Future[Completion]) -> ErrorCode:
        try:
            completion = await future
        except KafkaError as error:
            return ErrorCode(error.code)
        self._offsets.transaction_ended(
            part.topic_id, part.partition, marker.producer_id, completion.base_offset, committed=marker.committed
        )
        return ErrorCode.NONE


class OnlyHere:
    """`ports.MarkerWriter` of a broker that is alone."""

    def __init__(self, broker_id: int, local: LocalMarkers) -> None:
        self._broker_id = broker_id
        self._local = local

    async def write(self, broker_id: int, marker: Marker, parts: Sequence[Part]) -> list[ErrorCode]:
        """See the port."""
        if broker_id != self._broker_id:
            return [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(parts)
        return await self._local.write(marker, parts)
