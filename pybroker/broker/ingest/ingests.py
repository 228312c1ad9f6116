"""The lifecycle of staged ingests: begin, commit, abort, expiry, and recovery after a crash.

The controller decides, and each decision is durable before it takes effect; `ingest_leader` does the work on
partitions. Each ingest has a lock: if two commits run concurrently, the second waits and finds the result of the first.

In a cluster every broker follows the decisions of all brokers: it opens new ingests, links commits to the partitions
that it leads, and removes ended ingests.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import BeginIngest, DropIngests, Event
from pybroker.broker.cluster.ingest_orders import IngestPeers, PrepareIngest
from pybroker.broker.ingest.ingest_changes import changes_of
from pybroker.broker.ingest.ingest_commits import CommitOutcome, IngestCommits
from pybroker.broker.ingest.ingest_expiry import Expiry
from pybroker.broker.ingest.ingest_leader import IngestLeader, Joining, StagedIngest
from pybroker.broker.ingest.staged_file_removal import Removal
from pybroker.broker.ingest.two_phase_prepare import Preparing
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.ingest_records import COMMITTING, OPEN, IngestKey, IngestRecord
from pybroker.broker.metadata.metadata_cache import RemovedTopic
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.native import ListedAttempt, Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

BEGIN_MS = 15_000
"""Milliseconds that a begin waits for unresponsive brokers. Until they respond, appends to them fail."""
R = TypeVar("R")


class IngestView(msgspec.Struct, frozen=True):
    """An ingest as ListIngests shows it."""

    record: IngestRecord
    touched_ms: int
    writers: int
    staged: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition; they include every attempt. Empty for a committed ingest."""


class Ingests:
    """The staged ingests of one broker.

    `start` runs after the first LeaderAndIsr and before clients are accepted. `peers`: None on a broker without
    peers.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        leader: IngestLeader,
        peers: IngestPeers | None,
        view: ClusterView,
        controller: ControllerClient,
        config: BrokerConfig,
        clock: Clock,
        resolved_config: Callable[[Uuid], dict[str, str]],
    ) -> None:
        self._broker_id = broker_id
        self._leader = leader
        self._alone = peers is None
        self._preparing = Preparing(
            broker_id, leader, view, peers, lambda topic: int(resolved_config(topic)["min.insync.replicas"])
        )
        self.joining = Joining(leader, view)
        self._view = view
        self._controller = controller
        self._config = config
        self._clock = clock
        self._resolved_config = resolved_config
        self._running = False
        self._locks: WeakValueDictionary[IngestKey, asyncio.Lock] = WeakValueDictionary()
        self._work: set[asyncio.Task[Any]] = set()
        self._removal = Removal(leader.drop, self._topic, clock)
        self._commits = IngestCommits(
            broker_id=broker_id,
            alone=self._alone,
            leader=leader,
            preparing=self._preparing,
            view=view,
            controller=controller,
            clock=clock,
            removal=self._removal,
            lock=self._lock,
            spawn=self._spawn,
            end=self._end,
        )
        self._expiry = Expiry(
            broker_id=broker_id,
            alone=self._alone,
            leader=leader,
            view=view,
            controller=controller,
            config=config,
            clock=clock,
            lock=self._lock,
            end=self._end,
            forget_gone=self._forget_gone,
            removal=self._removal,
        )

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover after a restart: reopen open ingests, link decided commits, and remove other staged files."""
        await self._forget_gone(native=False)
        image = self._view.image
        unfinished = [record for record in image.committed_ingests.values() if record.state == COMMITTING]
        try:
            if image.damaged_ingests:
                log.warning("staged files of ended ingests stay, because records of ingests are damaged")
            elif removed := await self._leader.collect((*image.ingests.values(), *unfinished)):
                log.info("removed the staged files of ended ingests ingests=%d", removed)
        except KafkaError as error:
            # Files that remain only use disk space. They are no reason to keep the broker from serving its other data.
            log.warning("cannot remove the staged files of ended ingests: %s", error)
        for record in image.ingests.values():
            try:
                await self._leader.open(record)
            except KafkaError as error:
                log.warning("cannot reopen an ingest ingest=%r: %s", record.ingest_id, error)
        self._running = True
        self._commits.start()
        # This also covers topics that were undeleted in the meantime.
        self.topics_shown(self._view.image.names)
        self._expiry.start()

    async def stop(self) -> None:
        """Stop background work. A pending commit completes either now or after the next start."""
        self._running = False
        self._commits.stop()
        await self._expiry.stop()
        work: list[asyncio.Task[Any]] = [*self._work]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self._leader.stop()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def begin(self, key: IngestKey, ttl_ms: int, join: bool, caller: Caller | None = None) -> IngestRecord:
        """Begin an ingest; return the open ingest or the record of its commit. Raise KafkaError."""
        async with self._lock(key):
            ttl = self._config["ingest.ttl.ms"] if ttl_ms < 0 else ttl_ms
            event = BeginIngest(
                key,
                max(1, min(ttl, self._config["ingest.ttl.max.ms"])),
                join,
                self._resolved_config(key[0]),
                self._clock.wall_ms(),
                self._config["ingest.open.max"],
                self._config["ingest.committed.max"],
                # The epoch must differ from the epochs of earlier ingests with this id, so that their late appends are
                # refused.
                random.randrange(1, 2**30),
            )
            before = self._view.image.ingests.get(key)
            record = await self._decide(event, None if self._alone else BEGIN_MS, caller)
            if self._alone and record.state == OPEN:
                if before is not None and before.epoch != record.epoch:
                    await self._removal.remove(before)
                await self._leader.open(record)
        self._expiry.wake()
        return record

    async def commit(
        self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt], caller: Caller | None = None
    ) -> CommitOutcome:
        """Commit the listed attempts, once. Raise KafkaError if nothing was decided.

        The commit continues if the client disconnects.
        """
        return await asyncio.shield(self._spawn(self._commits.commit(key, epoch, listed, caller)))

    async def abort(self, key: IngestKey, epoch: int, caller: Caller | None = None) -> str | None:
        """Drop an open ingest. Return None, or the state of the ingest if it was committed before.

        Raise KafkaError if nothing was decided.
        """
        async with self._lock(key):
            done = self._view.image.commit_of(key)
            if done is not None:
                return done.state
            known = self._view.image.ingests.get(key)
            if known is None:
                return None
            if epoch not in (-1, known.epoch):
                raise KafkaError(
                    ErrorCode.PRODUCER_FENCED,
                    f"Epoch {epoch} of the ingest is obsolete: epoch {known.epoch} has begun.",
                )
            await self._end(known, caller)
            return None

    def views(self, include_committed: bool) -> Iterator[IngestView]:
        """Yield all ingests in their state at the first `next()`, open ingests first."""
        staged = self._leader.staged()
        image = self._view.image
        for record in image.ingests.values():
            yield IngestView(record, *staged.get(record.key, StagedIngest(record.created_ms, 0, {})))
        for record in image.committed_ingests.values():
            if include_committed or record.state == COMMITTING:
                yield IngestView(record, record.committed_ms, 0, {})

    async def prepare_here(self, order: PrepareIngest) -> Mapping[int, tuple[int, int]]:
        """Prepare partitions of this broker for a commit that another broker runs. Raise KafkaError."""
        return await self._preparing.here(order)

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def _end(self, record: IngestRecord, caller: Caller | None = None) -> None:
        """End an ingest. The ingest has ended when the controller has decided it, even if its files remain. Raises
        KafkaError if the controller has not decided it.
        """
        await self._decide(DropIngests(open=((record.key, record.epoch),)), caller=caller)
        if self._alone:
            await self._removal.remove(record)

    def topics_removed(self, removed: Sequence[RemovedTopic]) -> None:
        """End the open ingests of deleted incarnations."""
        image = self._view.image
        concerned = {topic_id for topic_id, *_ in image.ingests}
        if self._running and any(topic.topic_id in concerned for topic in removed):
            self._spawn(self._forget_gone())

    def topics_shown(self, shown: Collection[Uuid]) -> None:
        """Link decided commits of incarnations that have become visible. Before `start` it does nothing, because
        `start` checks all topics.
        """
        if not self._running:
            return
        for record in self._view.image.committed_ingests.values():
            if record.state == COMMITTING and record.topic_id in shown:
                self._commits.finish_soon(record.key)

    # --- following decisions in a cluster -----------------------------------------------------------------------------

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Implement `ImageObserver`. When this returns, this broker accepts appends to new ingests."""
        if self._alone or not self._running:
            # `start` will check all ingests.
            return
        changes = changes_of(before, after, change)
        for record in changes.opened:
            try:
                await self._leader.open(record)
            except KafkaError as error:
                log.error(
                    "this broker accepts no appends for an ingest ingest=%r topic=%s: %s",
                    record.ingest_id,
                    self._topic(record),
                    error,
                )
        for record in changes.reopened:
            self._leader.reopen(record.key, record.epoch)
        for record in changes.over:
            self._spawn(self._remove(record))
        if changes.opened:
            self._expiry.wake()
        if changes.may_attach:
            self._commits.follow(after)

    async def _remove(self, record: IngestRecord) -> None:
        # Wait for running work: nothing may stage, prepare or link an ingest while its files are removed.
        async with self._lock(record.key):
            await self._removal.remove(record)

    async def _forget_gone(self, *, native: bool = True) -> None:
        """Drop open ingests of deleted topics, and forget commits of topics that cannot be undeleted.

        Keep the commits of a deleted topic as long as an undelete is possible: the topic then has their records, or the
        rest is linked.
        """
        image = self._view.image
        ended = [record for record in image.ingests.values() if image.is_deleted(record.topic_id)]
        committed = [record for record in image.committed_ingests.values() if image.is_dead(record.topic_id)]
        topics = {topic_id for topic_id in image.ingest_folders.values() if image.is_dead(topic_id)}
        if not ended and not committed and not topics:
            return
        ended = await self._decide(
            DropIngests(
                tuple((record.key, record.epoch) for record in ended),
                tuple((record.series, record.batch_id) for record in committed),
                tuple(topics),
            )
        )
        if native and self._alone:
            for record in (*ended, *committed):
                # Wait for running work: nothing may stage or prepare an ingest while its files are removed.
                async with self._lock(record.key):
                    await self._removal.remove(record)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _topic(self, record: IngestRecord) -> str:
        """Return the topic's description for log lines."""
        return self._view.image.describe(record.topic_id)

    def _lock(self, key: IngestKey) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and not isinstance(problem, KafkaError):
            log.error("ingest work failed: this is a bug in pybroker", exc_info=problem)

    async def _decide(self, event: Event[R], timeout_ms: int | None = None, caller: Caller | None = None) -> R:
        return (await self._controller.submit(event, timeout_ms, caller=caller)).reply
