"""Writes transaction markers to partitions that this broker leads, for all coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.interfaces import Ended
from pybroker.broker.coordinators.transaction.interfaces import CodesCallback, Marker
from pybroker.broker.coordinators.transaction.transaction import VERSION_2, TransactionPartition
from pybroker.errors import KafkaError
from pybroker.native import NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode


class MarkerAppends(Protocol):
    """Appends of markers (`coordinators.shards.appends`)."""

    def append_marker(
        self,
        topic_id: Uuid,
        partition: int,
        marker: tuple[int, int, int],
        timestamp_ms: int,
        *,
        committed: bool,
        raised: bool,
        callback: Callable[[int, int], None],
    ) -> Ended | None:
        """Append a marker. If the result is known at once, return it. Otherwise return None, and call `callback` with
        the result once, later.

        `raised`: whether the marker's epoch is higher than the epoch of the transaction's records.
        """
        ...


class OffsetsListener(Protocol):
    """The group coordinator, whose transactional offsets wait for markers."""

    def transaction_ending(self, topic_id: Uuid, partition: int, producer_id: int) -> None:
        """Note that a marker is being written to a partition."""
        ...

    def transaction_ended(self, topic_id: Uuid, partition: int, producer_id: int, at: int, *, committed: bool) -> None:
        """Note that the marker is durable at log offset `at`."""
        ...


class LocalMarkers:
    """Writes markers to partitions that this broker leads."""

    def __init__(self, appends: MarkerAppends, offsets: OffsetsListener, clock: Clock) -> None:
        self._appends = appends
        self._offsets = offsets
        self._clock = clock

    async def write(self, marker: Marker, parts: Sequence[TransactionPartition]) -> list[ErrorCode]:
        """Write markers. Return an error code for each partition: NONE if its marker is committed."""
        return await self.begin(marker, parts)

    def begin(self, marker: Marker, parts: Sequence[TransactionPartition]) -> Awaitable[list[ErrorCode]]:
        """Start `write`. When this method returns, the markers are in the logs; the caller awaits the error codes."""
        future: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
        self.begin_then(marker, parts, lambda codes: None if future.done() else future.set_result(codes))
        return future

    def begin_then(self, marker: Marker, parts: Sequence[TransactionPartition], callback: CodesCallback) -> None:
        """Like `begin`, but call `callback` once with the error codes. If no partition has to wait, call it before this
        method returns."""
        codes = [ErrorCode.NONE] * len(parts)
        left = len(parts)

        def ended(index: int, code: int, base_offset: int) -> None:
            nonlocal left
            part = parts[index]
            if not code:
                self._offsets.transaction_ended(
                    part.topic_id, part.partition, marker.producer_id, base_offset, committed=marker.committed
                )
            codes[index] = ErrorCode(code)
            left -= 1
            if not left:
                callback(codes)

        if not parts:
            callback([])
        for index, part in enumerate(parts):
            at_once = self._start(marker, part, partial(ended, index))
            if at_once is not None:
                ended(index, *at_once)

    def _start(self, marker: Marker, part: TransactionPartition, callback: Callable[[int, int], None]) -> Ended | None:
        self._offsets.transaction_ending(part.topic_id, part.partition, marker.producer_id)
        try:
            return self._appends.append_marker(
                part.topic_id,
                part.partition,
                (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch),
                self._clock.wall_ms(),
                committed=marker.committed,
                raised=marker.version >= VERSION_2,
                callback=callback,
            )
        except (KafkaError, NativeError) as error:
            return error.code, -1


class OnlyHere:
    """Implements `ports.MarkerWriter` for a broker without peers."""

    def __init__(self, broker_id: int, local: LocalMarkers) -> None:
        self._broker_id = broker_id
        self._local = local

    def write_then(
        self, broker_id: int, marker: Marker, parts: Sequence[TransactionPartition], callback: CodesCallback
    ) -> None:
        """See `ports.MarkerWriter.write_then`."""
        if broker_id == self._broker_id:
            self._local.begin_then(marker, parts, callback)
        else:
            callback([ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(parts))
