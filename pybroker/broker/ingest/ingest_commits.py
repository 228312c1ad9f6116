"""Commits of staged ingests: prepare, decide, link. Decided commits are retried until they are linked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import CommitIngest, Event, FinishIngest, LoseIngest, ReopenIngest
from pybroker.broker.ingest.ingest_leader import IngestLeader
from pybroker.broker.ingest.staged_file_removal import Removal
from pybroker.broker.ingest.two_phase_prepare import Preparing
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING, IngestKey, IngestRecord
from pybroker.errors import KafkaError
from pybroker.native import ListedAttempt, Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 2.0
"""Seconds before another attempt to link after the disk had no space."""
ELSEWHERE_RETRY_S = 0.05
"""Seconds before another attempt to link after a failure because this broker does not lead the partition (yet, or any
more). Also the seconds before the check after a success.
"""
PREPARE_S = 20.0
PREPARE_PAUSE_S = 0.1
"""Seconds for which prepares are repeated while leaders or replicas keep changing, and seconds between two prepares."""
OTHERS_S = 30.0
"""Seconds that the response to a commit waits until the other brokers have linked the decided commit."""
AGAIN = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Temporary errors, after which a commit is prepared again."""

R = TypeVar("R")


class CommitOutcome(msgspec.Struct, frozen=True):
    """The result of a commit."""

    record: IngestRecord
    repeated: bool
    problem: KafkaError | None
    """The reason why a decided commit is not yet linked everywhere; None if it is linked."""


class IngestCommits:
    """Commits of this broker's ingests.

    `lock` returns the lock of an ingest. `spawn` runs work in the background. `end` drops an open ingest.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        alone: bool,
        leader: IngestLeader,
        preparing: Preparing,
        view: ClusterView,
        controller: ControllerClient,
        clock: Clock,
        removal: Removal,
        lock: Callable[[IngestKey], AbstractAsyncContextManager[Any]],
        spawn: Callable[[Coroutine[Any, Any, None]], Any],
        end: Callable[[IngestRecord], Coroutine[Any, Any, None]],
    ) -> None:
        self._broker_id = broker_id
        self._alone = alone
        self._leader = leader
        self._preparing = preparing
        self._view = view
        self._controller = controller
        self._clock = clock
        self._removal = removal
        self._lock = lock
        self._spawn = spawn
        self._end = end
        self._running = False
        self._shown = asyncio.Event()
        """Event that the next applied change of ingests or partitions sets. A new event then replaces it."""
        self._finishing: set[IngestKey] = set()

    def start(self) -> None:
        """Allow retries of decided commits."""
        self._running = True

    def stop(self) -> None:
        """Stop retrying."""
        self._running = False

    def follow(self, image: ClusterImage) -> None:
        """Link the decided commits in partitions that this broker leads. Call this after a decision or a leader change.
        """
        for record in image.committed_ingests.values():
            if record.state == COMMITTING and self._own(record):
                self.finish_soon(record.key)
        self._shown.set()
        self._shown = asyncio.Event()

    async def commit(
        self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt], caller: Caller | None
    ) -> CommitOutcome:
        """Execute a client's commit."""
        async with self._lock(key):
            record = self._view.image.commit_of(key)
            repeated = record is not None
            if record is None:
                record = await self._decide_commit(key, epoch, listed, caller)
            problem = None
            if record.state == COMMITTING and record.key == key:
                try:
                    record = await self._attach(record)
                except KafkaError as error:
                    problem = error
        if problem is not None or (record.state == COMMITTING and record.key == key):
            self.finish_soon(key)
        if not self._alone and record.state == COMMITTING and record.key == key:
            # Wait until the present or later leaders of the other partitions have linked their parts.
            record, problem = await self._shown_committed(record, problem)
        return CommitOutcome(record, repeated, problem)

    async def _shown_committed(
        self, record: IngestRecord, problem: KafkaError | None
    ) -> tuple[IngestRecord, KafkaError | None]:
        """Return the record when every broker has linked the commit. If the time limit comes first, return the record
        and the reason.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OTHERS_S):
                while True:
                    shown = self._shown
                    now = self._view.image.commit_of(record.key)
                    if now is None or now.key != record.key:
                        break
                    record = now
                    if record.state == COMMITTED:
                        return record, None
                    await shown.wait()
        missing = record.pending
        late = KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Some in-sync replicas of partitions {missing[:10]} do not have the records yet.",
        )
        return record, problem or late

    async def _decide_commit(
        self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt], caller: Caller | None
    ) -> IngestRecord:
        known = self._view.image.ingests.get(key)
        if known is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                "The ingest is not open: it never began, was aborted or has expired.",
            )
        if known.epoch != epoch:
            raise KafkaError(
                ErrorCode.PRODUCER_FENCED, f"Epoch {epoch} of the ingest is obsolete: epoch {known.epoch} has begun."
            )
        if self._alone:
            record = await self._prepare_and_decide(known, listed, caller)
        else:
            record = await self._decide_in_cluster(known, listed, caller)
        if record.key != key:
            # A later batch of the stream was committed in the meantime. This batch therefore counts as committed, and
            # its files are useless.
            await self._end(known)
        elif self._alone and record.state == COMMITTED:
            await self._removal.remove(record)
        return record

    async def _prepare_and_decide(
        self, known: IngestRecord, listed: Sequence[ListedAttempt], caller: Caller | None
    ) -> IngestRecord:
        prepared = await self._preparing.prepare(known, listed)
        event = CommitIngest(
            known.key,
            known.epoch,
            prepared.partitions,
            self._clock.wall_ms(),
            prepared.plan,
            known.reopened,
            prepared.versions,
        )
        try:
            return await self._decide(event, caller)
        except KafkaError:
            if self._alone:
                self._leader.reopen(known.key, known.epoch)
            raise

    async def _decide_in_cluster(
        self, known: IngestRecord, listed: Sequence[ListedAttempt], caller: Caller | None
    ) -> IngestRecord:
        """Prepare and decide. Repeat both while leaders and replicas change.

        If the response to a decision was lost, the next attempt finds the decision.
        """
        give_up = self._clock.monotonic_ms() + PREPARE_S * 1000
        while True:
            try:
                return await self._prepare_and_decide(known, listed, caller)
            except KafkaError as error:
                if error.code not in AGAIN or self._clock.monotonic_ms() >= give_up:
                    # Accept appends again. If a broker is still preparing this commit, its prepare no longer counts.
                    await self._decide(ReopenIngest(known.key, known.epoch))
                    if error.code == ErrorCode.INVALID_UPDATE_VERSION:
                        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from None
                    raise
                log.info(
                    "retrying the prepare of an ingest commit ingest=%r topic=%s: %s",
                    known.ingest_id,
                    self._describe(known),
                    error,
                )
            await asyncio.sleep(PREPARE_PAUSE_S)

    def _own(self, record: IngestRecord) -> list[int]:
        """Return the partitions that this broker leads, as far as it knows, and that may not have linked the records.
        """
        if self._alone:
            return [index for index in record.partitions if index not in record.lost]
        topic = self._view.image.topic_by_id(record.topic_id)
        states = () if topic is None else topic.partitions
        return [index for index in record.pending if index < len(states) and states[index].leader == self._broker_id]

    def _epochs(self, topic_id: Uuid) -> dict[int, int]:
        """Return the leader epochs of a topic's partitions."""
        topic = self._view.image.topic_by_id(topic_id)
        return (
            {} if topic is None else {index: partition.leader_epoch for index, partition in enumerate(topic.partitions)}
        )

    async def _attach(self, record: IngestRecord) -> IngestRecord:
        own = self._own(record)
        if not own:
            return record
        started = self._clock.monotonic_ms()
        epochs = self._epochs(record.topic_id)
        here = await self._leader.attach(record, own)
        if here.missing:
            lost = {index: epochs[index] for index in here.missing}
            record = await self._decide(LoseIngest(record.key, self._broker_id, lost))
        if here.problem is not None and (self._alone or not here.offsets):
            raise here.problem
        attached_ms = self._clock.monotonic_ms() - started
        finished = await self._decide(FinishIngest(record.key, here.offsets)) if here.offsets else record
        if here.problem is not None:
            raise here.problem
        if finished.state != COMMITTED or finished.lost:
            return finished
        log.info(
            "ingest committed ingest=%r topic=%s bytes=%d records=%d partitions=%d linking_ms=%d",
            record.ingest_id,
            self._describe(record),
            sum(part.bytes for part in record.partitions.values()),
            sum(part.rows for part in record.partitions.values()),
            len(record.partitions),
            attached_ms,
        )
        if self._alone:
            await self._removal.remove(record)
        return finished

    def finish_soon(self, key: IngestKey) -> None:
        """Start a background task that links the commit. There is one task, even if several clients retry the commit.
        """
        if key not in self._finishing:
            self._finishing.add(key)
            self._spawn(self._finish_later(key))

    async def _finish_later(self, key: IngestKey) -> None:
        """Retry linking a decided commit until it succeeds or the topic is deleted. If the topic is undeleted, linking
        starts again.
        """
        try:
            await self._finish(key)
        finally:
            self._finishing.discard(key)

    async def _finish(self, key: IngestKey) -> None:
        while self._running:
            async with self._lock(key):
                record = self._view.image.commit_of(key)
                if record is None or record.key != key or record.state == COMMITTED:
                    return
                if self._view.image.topic_by_id(record.topic_id) is None or not self._own(record):
                    # Either the topic is deleted, or other brokers lead the remaining partitions.
                    return
                # Check again after the pause, because this broker may lead more of the partitions then.
                pause = ELSEWHERE_RETRY_S
                try:
                    await self._attach(record)
                except KafkaError as error:
                    elsewhere = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not self._alone
                    pause = ELSEWHERE_RETRY_S if elsewhere else RETRY_S
                    log.log(
                        logging.DEBUG if elsewhere else logging.WARNING,
                        "ingest committed, but its records are not yet visible, retrying ingest=%r topic=%s: %s",
                        record.ingest_id,
                        self._describe(record),
                        error,
                    )
            await asyncio.sleep(pause)

    def _describe(self, record: IngestRecord) -> str:
        """Return the topic's description for log lines."""
        return self._view.image.describe(record.topic_id)

    async def _decide(self, event: Event[R], caller: Caller | None = None) -> R:
        return (await self._controller.submit(event, caller=caller)).reply
