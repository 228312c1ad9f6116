"""Tracks deletions and undeletes: the brokers' confirmations, repeated requests, and the removal of the data on every
broker.

A broker that never responds does not block a deletion: the topic's name is free at once. When the broker returns, it
stages its replica after its first LeaderAndIsr of type FULL. Only in clusters without topic ids, the name stays in use
until every broker has responded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import UndeletedTopic
from pybroker.broker.controller.internal_events import AdvanceDeletions
from pybroker.broker.controller.pending_undeletes import PendingUndeletes
from pybroker.broker.controller.staged_data import StagedData
from pybroker.broker.metadata.control_messages import (
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    TopicPartitionErrors,
)
from pybroker.broker.metadata.deletion_records import DELETING, STAGED, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import (
    StoreClosedError,
    StoreError,
    UnavailableError,
)
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 30.0
"""Delay between two StopReplica requests for the same partitions."""
PAUSE_S = 0.5
"""Delay after a failed write, while the store is unreachable."""
RETRIES_MAX = 20
"""Limit of repeated StopReplica requests for a topic. A broker that has answered none of them stages its replica when
that broker gets its next LeaderAndIsr of type FULL."""
PARTLY_S = 1.0
"""Seconds that the controller waits before it stores which brokers have confirmed. All brokers confirm most deletions
in this time, and then one write is enough."""


class Deletions:
    """The deletions of one controller, on the event loop's thread."""

    def __init__(
        self,
        staged: StagedData,
        controller: ControllerClient,
        send_again: Callable[[int, Sequence[Uuid]], None],
        tombstones_max: Callable[[], int],
    ) -> None:
        self._staged_data = staged
        self._controller = controller
        self._send_again = send_again
        self._tombstones_max = tombstones_max
        self._image = ClusterImage.initial(-1)
        """The current image, for topic names in log lines."""
        self._unconfirmed: dict[Uuid, set[int]] = {}
        """Topic id → brokers that have not responded to StopReplica."""
        self._partly: set[Uuid] = set()
        """Topics in `_unconfirmed` with confirmations that are not stored yet."""
        self._partly_due: asyncio.TimerHandle | None = None
        self._pending_undeletes = PendingUndeletes()
        self._tries: dict[Uuid, int] = {}
        self._staged: set[Uuid] = set()
        """Topics whose replicas are all staged. Brokers remove the data after the delay."""
        self._unchecked: set[Uuid] = set()
        """Topics in `_staged` from which a broker has removed data since the last check."""
        self._newly_staged: set[Uuid] = set()
        self._undeletes: dict[Uuid, asyncio.Future[Any]] = {}
        self._freed: dict[Uuid, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()

    def start(self, image: ClusterImage) -> None:
        """Continue unfinished deletions. When a broker registers, it gets its unconfirmed requests again."""
        self._image = image
        self._take(image.deletions.values())
        self._spawn(self._run())

    def pending_of(self, broker_id: int) -> list[Uuid]:
        """Return the topics for which the broker has not confirmed the staging."""
        stopping = [topic_id for topic_id, brokers in self._unconfirmed.items() if broker_id in brokers]
        return stopping + self._pending_undeletes.pending_of(broker_id)

    async def stop(self) -> None:
        """Stop. The next controller continues, because the store has the deletion records."""
        for timer in (*self._timers, *([] if self._partly_due is None else [self._partly_due])):
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for future in (*self._undeletes.values(), *self._freed.values()):
            future.cancel()

    def observe(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Update the tracking after a durable decision."""
        self._image = image
        self._take(delta.deletions)
        for topic_id in delta.forgotten_deletions:
            self._drop(topic_id)
        for _, topic_id in delta.unstaged:
            self._staged_data_changed(topic_id)
        if delta.forgotten_brokers:
            # In a quorum, the image forgets the staged data of a broker when the broker is unregistered.
            for topic_id in tuple(self._staged):
                self._staged_data_changed(topic_id)
        if delta.lost_brokers:
            # The undelete no longer waits for brokers that are down.
            self._wake.set()
        named = [record.topic_id for record in delta.deletions if not record.by_order]
        for topic_id in (*named, *delta.forgotten_deletions):
            waiting = self._freed.pop(topic_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def _take(self, records: Iterable[DeletionRecord]) -> None:
        for record in records:
            # Confirmations from an earlier state of the deletion remain valid.
            waiting = self._unconfirmed.get(record.topic_id, record.unconfirmed)
            tries = self._tries.get(record.topic_id, 0)
            self._drop(record.topic_id, undeleting=record.state == UNDELETING)
            if record.state == DELETING:
                self._tries[record.topic_id] = tries
                self._unconfirmed[record.topic_id] = waiting = waiting & record.unconfirmed
                if not waiting:
                    self._newly_staged.add(record.topic_id)
                    self._wake.set()
                elif waiting < record.unconfirmed:
                    self._note_partly(record.topic_id)
            elif record.state == UNDELETING:
                self._pending_undeletes.begin(record)
                # If all remaining brokers have responded, the deletion can advance.
                self._wake.set()
            elif record.state == STAGED:
                self._staged.add(record.topic_id)
                self._unchecked.add(record.topic_id)
                self._wake.set()

    def _drop(self, topic_id: Uuid, *, undeleting: bool = False) -> None:
        self._unconfirmed.pop(topic_id, None)
        self._partly.discard(topic_id)
        if not undeleting:
            self._pending_undeletes.drop(topic_id)
        self._tries.pop(topic_id, None)
        self._staged.discard(topic_id)
        self._unchecked.discard(topic_id)
        self._newly_staged.discard(topic_id)

    # --- answers of brokers -------------------------------------------------------------------------------------------

    def stopped(self, broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse) -> None:
        """Process a broker's response to StopReplica."""
        failed = set(_failures(response.topics))
        if response.error_code:
            failed = {topic.topic_id for topic in request.topic_states}
        for topic in request.topic_states:
            if topic.topic_id in failed or broker_id not in self._unconfirmed.get(topic.topic_id, ()):
                continue
            if not self._is_current(topic):
                continue
            self._unconfirmed[topic.topic_id].discard(broker_id)
            if self._unconfirmed[topic.topic_id]:
                self._note_partly(topic.topic_id)
                continue
            self._partly.discard(topic.topic_id)
            self._tries.pop(topic.topic_id, None)
            self._newly_staged.add(topic.topic_id)
        if self._newly_staged:
            self._wake.set()
        again = [topic_id for topic_id in failed if self._may_retry(topic_id)]
        if again:
            self._later(broker_id, again)

    def _is_current(self, topic: StopReplicaTopicState) -> bool:
        """Return whether a request belongs to the topic's current deletion. A report of an earlier one may arrive late.
        An undelete raises the leader epochs, so the highest epoch identifies the deletion."""
        record = self._image.deletions.get(topic.topic_id)
        return record is None or topic.last_epoch in (-1, record.leader_epoch_max)

    def restored(self, broker_id: int, request: RestoreReplicasRequest, response: RestoreReplicasResponse) -> None:
        """Process a broker's response to RestoreReplicas."""
        if self._pending_undeletes.handle_answer(broker_id, request, response):
            self._wake.set()

    def _note_partly(self, topic_id: Uuid) -> None:
        """After `PARTLY_S`, store which brokers have confirmed. Tools then show the missing brokers."""
        self._partly.add(topic_id)
        if self._partly_due is None:
            self._partly_due = asyncio.get_running_loop().call_later(PARTLY_S, self._partly_is_due)

    def _partly_is_due(self) -> None:
        self._partly_due = None
        self._wake.set()

    def undelete_finished(self, topic_id: Uuid) -> asyncio.Future[Any]:
        """Return a future for the reply to FinishUndelete, which completes when the running undelete has ended. It is
        cancelled when this controller's term ends.

        The undelete of a retried request may already have ended, even on an earlier controller.
        """
        future = self._undeletes.get(topic_id)
        if future is not None:
            return future
        future = asyncio.get_running_loop().create_future()
        record = self._image.deletions.get(topic_id)
        if record is not None and record.state == UNDELETING:
            self._undeletes[topic_id] = future
        else:
            future.set_result(self._undeleted(topic_id))
        return future

    def _undeleted(self, topic_id: Uuid) -> UndeletedTopic | KafkaError:
        """Return the reply for an undelete that has ended."""
        topic = self._image.topic_by_id(topic_id)
        if topic is not None:
            return UndeletedTopic(topic.name, topic_id)
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Topic {self._image.describe(topic_id)} was not undeleted, or was deleted again.",
        )

    def name_freed(self, topic_id: Uuid) -> asyncio.Future[None] | None:
        """Return None if the name of a deleted topic is free, else a future that completes when the name becomes
        free."""
        record = self._image.deletions.get(topic_id)
        if record is None or not record.by_order:
            return None
        future = self._freed.get(topic_id)
        if future is None:
            future = self._freed[topic_id] = asyncio.get_running_loop().create_future()
        return future

    def _may_retry(self, topic_id: Uuid) -> bool:
        if topic_id not in self._unconfirmed:
            return False
        self._tries[topic_id] = self._tries.get(topic_id, 0) + 1
        if self._tries[topic_id] > RETRIES_MAX:
            log.error(
                "a broker does not confirm the deletion of topic %s; its next start completes it",
                self._image.describe(topic_id),
            )
            return False
        return True

    def _later(self, broker_id: int, ids: list[Uuid]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            self._send_again(broker_id, ids)

        timer = asyncio.get_running_loop().call_later(RETRY_S, run)
        self._timers.add(timer)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("deletions are no longer recorded: this is a bug in pybroker", exc_info=task.exception())

    # --- records ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Store confirmations. Find the deletions whose data is removed on every broker."""
        while True:
            self._wake.clear()
            try:
                await self._record()
            except StoreClosedError:
                return  # The broker is stopping.
            except UnavailableError as problem:
                # The store client has already retried for a while. A longer pause here would delay undeletes.
                log.warning("cannot record deletions yet, retrying: %s", problem)
                await asyncio.sleep(PAUSE_S)
                continue
            except (KafkaError, StoreError) as problem:
                log.error("cannot record deletions, retrying: %s", problem)
                await asyncio.sleep(RETRY_S)
                continue
            await self._wake.wait()

    async def _record(self) -> None:
        for finish in self._pending_undeletes.ready(self._image):
            answer = await self._controller.submit(finish)
            waiting = self._undeletes.pop(finish.topic_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer.reply)
        staged = tuple(self._newly_staged)
        confirmed = self._partly_confirmed()
        if staged or confirmed:
            await self._controller.submit(
                AdvanceDeletions(confirmed=confirmed, staged=staged, tombstones_max=self._tombstones_max())
            )
            self._newly_staged.difference_update(staged)
        removed = await self._removed()
        if removed:
            await self._controller.submit(AdvanceDeletions(removed=removed, tombstones_max=self._tombstones_max()))

    def _partly_confirmed(self) -> tuple[tuple[Uuid, tuple[int, ...]], ...]:
        if self._partly_due is not None:
            return ()
        partly, self._partly = self._partly, set()
        found = []
        for topic_id in partly:
            record = self._image.deletions.get(topic_id)
            if record is not None and record.state == DELETING and topic_id in self._unconfirmed:
                confirmed = record.unconfirmed - self._unconfirmed[topic_id]
                if confirmed:
                    found.append((topic_id, tuple(sorted(confirmed))))
        return tuple(found)

    async def _removed(self) -> tuple[Uuid, ...]:
        """Return the staged deletions for which no broker has data."""
        if not self._unchecked:
            return ()
        topics, self._unchecked = self._unchecked, set()
        try:
            unheld = await self._staged_data.unheld(topics, self._staged_data_changed)
        except StoreError:
            self._unchecked |= topics
            raise
        # During the read, a topic may have been undeleted; it is then no longer staged.
        return tuple(topic_id for topic_id in unheld if topic_id in self._staged)

    def _staged_data_changed(self, topic_id: Uuid) -> None:
        if topic_id in self._staged:
            self._unchecked.add(topic_id)
            self._wake.set()


def _failures(topics: Iterable[TopicPartitionErrors]) -> dict[Uuid, set[int]]:
    found: dict[Uuid, set[int]] = {}
    for topic in topics:
        codes = {partition.error_code for partition in topic.partition_errors if partition.error_code}
        if codes:
            found[topic.topic_id] = codes
    return found
