"""The controller's care for deletions in progress: who has confirmed, asking again, and when the data is gone
everywhere.

A replica that never answers blocks nothing (R11): the name is free already. What it holds is settled when it comes
back, by its first FULL LeaderAndIsr.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pybroker.clock import Clock
from pybroker.controller.events import AdvanceDeletions, Event
from pybroker.errors import KafkaError
from pybroker.metadata import znodes
from pybroker.metadata.control_messages import StopReplicaRequest, StopReplicaResponse
from pybroker.metadata.image import ClusterImage, ImageDelta
from pybroker.metadata.store import MetadataStore, NoNodeError, StoreClosedError, StoreError
from pybroker.native import Uuid

log = logging.getLogger(__name__)

RETRY_S = 30.0
"""Between two StopReplica for the same partitions (checklist 122)."""
RETRIES_MAX = 20
"""After so many the next FULL LeaderAndIsr is left to do it (checklist 123)."""


class Deletions:
    """Belongs to the controller; runs on the loop's thread."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        submit: Callable[[Event], Awaitable[Any]],
        stop_again: Callable[[int, Sequence[Uuid]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._submit = submit
        self._stop_again = stop_again
        self._unconfirmed: dict[Uuid, set[int]] = {}
        self._tries: dict[Uuid, int] = {}
        self._staged: dict[Uuid, int] = {}
        """Staged everywhere; wall time before which nothing is removed."""
        self._newly_staged: set[Uuid] = set()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    async def start(self, image: ClusterImage) -> None:
        """Goes on with what is not finished."""
        for record in image.deletions.values():
            if record.state == znodes.DELETING:
                self._unconfirmed[record.topic_id] = {b for replicas in record.partitions.values() for b in replicas}
            elif record.state == znodes.STAGED_STATE:
                self._staged[record.topic_id] = record.remove_after_ms
        for broker_id in image.brokers:
            waiting = [topic_id for topic_id, brokers in self._unconfirmed.items() if broker_id in brokers]
            if waiting:
                self._stop_again(broker_id, waiting)
        self._spawn(self._run())

    async def stop(self) -> None:
        """Nothing is lost: the records are in the store."""
        for timer in self._timers:
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def observe(self, image: ClusterImage, delta: ImageDelta) -> None:
        """A decision was made durable."""
        del image
        for record in delta.deletions:
            if record.state == znodes.DELETING:
                brokers = {broker for replicas in record.partitions.values() for broker in replicas}
                self._unconfirmed[record.topic_id] = brokers
            elif record.state == znodes.STAGED_STATE:
                self._staged[record.topic_id] = record.remove_after_ms
                self._wake.set()
            else:
                self._staged.pop(record.topic_id, None)

    def confirmed(self, broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse) -> None:
        """A broker has answered StopReplica."""
        failed = {
            topic.topic_id
            for topic in response.topics
            if any(partition.error_code for partition in topic.partition_errors)
        }
        if response.error_code:
            failed = {topic.topic_id for topic in request.topic_states}
        for topic in request.topic_states:
            waiting = self._unconfirmed.get(topic.topic_id)
            if waiting is None or topic.topic_id in failed:
                continue
            waiting.discard(broker_id)
            if not waiting:
                del self._unconfirmed[topic.topic_id]
                self._tries.pop(topic.topic_id, None)
                self._newly_staged.add(topic.topic_id)
        if self._newly_staged:
            self._wake.set()
        again = [topic_id for topic_id in failed if self._may_retry(topic_id)]
        if again:
            self._later(broker_id, again)

    def _may_retry(self, topic_id: Uuid) -> bool:
        if topic_id not in self._unconfirmed:
            return False
        self._tries[topic_id] = self._tries.get(topic_id, 0) + 1
        if self._tries[topic_id] > RETRIES_MAX:
            log.error("a replica of deleted topic %s does not confirm; its next start settles it", topic_id)
            return False
        return True

    def _later(self, broker_id: int, ids: list[Uuid]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            self._stop_again(broker_id, ids)

        timer = asyncio.get_running_loop().call_later(RETRY_S, run)
        self._timers.add(timer)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("deletions are not recorded any more: this is a bug in pybroker", exc_info=task.exception())

    async def _run(self) -> None:
        """Records what was confirmed; finds deletions whose data is gone on every broker."""
        while True:
            self._wake.clear()
            staged = tuple(self._newly_staged)
            try:
                if staged:
                    await self._submit(AdvanceDeletions(staged=staged))
                    self._newly_staged.difference_update(staged)
                removed = await self._removed()
                if removed:
                    await self._submit(AdvanceDeletions(removed=removed))
            except StoreClosedError:
                return  # the broker stops
            except (KafkaError, StoreError) as problem:
                log.error("deletions could not be recorded, trying again: %s", problem)
                await asyncio.sleep(RETRY_S)
                continue
            now_ms = self._clock.wall_ms()
            later = [at for at in self._staged.values() if at > now_ms]
            wait_s = (min(later) - now_ms) / 1000 if later else None
            try:
                await asyncio.wait_for(self._wake.wait(), wait_s)
            except TimeoutError:
                continue

    async def _removed(self) -> tuple[Uuid, ...]:
        """Deletions past their time of which no broker holds anything any more. Watches for brokers that finish."""
        now_ms = self._clock.wall_ms()
        due = {str(topic_id): topic_id for topic_id, at in self._staged.items() if at <= now_ms}
        if not due:
            return ()
        for broker in await self._store.children(znodes.STAGED):
            try:
                held = await self._store.children(f"{znodes.STAGED}/{broker}", lambda event: self._wake.set())
            except NoNodeError:
                continue
            for name in held:
                due.pop(name, None)
        return tuple(due.values())
