"""Appends that Python starts, and the callbacks for their completions.

No coroutine waits for a flush: completions arrive through the queue that also delivers requests. Coordinators pass a
function instead of a future, because the callbacks of a future would need another step of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pybroker.broker.coordinators.shards.interfaces import Ended, Record
from pybroker.errors import KafkaError
from pybroker.native import Completion, NativePartitions, RecordsWatch, Uuid


class NativeAppends:
    """Calls native appends and matches their completions. For the event loop's thread only.

    The same thread registers the append and drains the queue. Therefore a completion cannot arrive before its append is
    registered.
    """

    def __init__(self, native: NativePartitions, loop: asyncio.AbstractEventLoop) -> None:
        self._native = native
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[Completion]] = {}
        self._callbacks: dict[int, Callable[[int, int], None]] = {}
        self._watching: dict[int, Callable[[], None]] = {}

    @property
    def pending(self) -> int:
        """Number of appends without a completion."""
        return len(self._waiting) + len(self._callbacks)

    def append(
        self,
        topic_id: Uuid,
        partition: int,
        leader_epoch: int,
        records: Sequence[Record],
        timestamp_ms: int,
        *,
        callback: Callable[[int, int], None],
        producer: tuple[int, int] | None = None,
    ) -> Ended | None:
        """Append records to a partition that this broker leads in this leader epoch.

        With a producer's (id, epoch), the records are part of its transaction. As described in `ports.LocalAppends`,
        the append completes at once unless it waits for a flush (`log.flush.mode=commit`) or for replicas.
        """
        return self._ended(
            self._native.append(
                topic_id, partition, list(records), timestamp_ms, leader_epoch, producer, at_once=True
            ),
            callback,
        )

    def _ended(self, outcome: Completion | int, callback: Callable[[int, int], None]) -> Ended | None:
        if isinstance(outcome, int):
            self._callbacks[outcome] = callback
            return None
        return outcome.error_code, outcome.base_offset

    def append_batch(self, topic_id: Uuid, partition: int, batch: bytes) -> asyncio.Future[Completion]:
        """Append a finished batch like a client's Produce with acks=all.

        The future returns the Completion once the batch is committed, or raises KafkaError with the partition's error
        code.
        """
        return self._wait(self._native.append_batch(topic_id, partition, batch))

    def append_marker(
        self, topic_id: Uuid, partition: int, marker: tuple[int, int, int], timestamp_ms: int, *,
        committed: bool, raised: bool, callback: Callable[[int, int], None],
    ) -> Ended | None:
        """End a transaction in a partition that this broker leads; `callback` works as for `append`.

        `marker`: (producer id, its epoch, coordinator epoch). `raised`: whether the marker's epoch is higher than the
        epoch of the transaction's records. Raise NativeError.
        """
        return self._ended(
            self._native.append_marker(topic_id, partition, marker, committed, timestamp_ms, raised), callback
        )

    def _wait(self, token: int) -> asyncio.Future[Completion]:
        future: asyncio.Future[Completion] = self._loop.create_future()
        self._waiting[token] = future
        return future

    def watched(self, watch: RecordsWatch, callback: Callable[[], None]) -> None:
        """Call `callback` when records are added or the partition stops."""
        self._watching[watch.token] = callback

    def unwatched(self, watch: RecordsWatch) -> None:
        """Cancel the call for this watch."""
        watch.cancel()
        self._watching.pop(watch.token, None)

    def complete(self, completion: Completion) -> None:
        """Handle one Completion from the native queue. Called by the dispatcher."""
        callback = self._callbacks.pop(completion.token, None)
        if callback is not None:
            callback(completion.error_code, completion.base_offset)
            return
        grown = self._watching.pop(completion.token, None)
        if grown is not None:
            grown()
            return
        future = self._waiting.pop(completion.token, None)
        if future is None or future.done():
            return
        if completion.error_code:
            future.set_exception(KafkaError(completion.error_code, "the append failed"))
        else:
            future.set_result(completion)

    def fail_all(self, code: int) -> None:
        """End all waits with an error, at shutdown."""
        callback, self._callbacks = self._callbacks, {}
        for ended in callback.values():
            ended(code, -1)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(KafkaError(code, "the broker is shutting down"))
