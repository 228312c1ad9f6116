"""The life of staged ingests: begin, commit, abort, expiry, and what a crash leaves to be finished.

Decisions go through the controller and are in the store before anything follows from them; what the leaders of the
partitions do is in `leader`. One lock an ingest: of two commits that race, the second finds the first one's answer.

With several brokers each follows what is decided, whoever had it decided: it opens what has begun, attaches to the
partitions that it leads what a commit brings, and removes what is over.
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
from pybroker.broker.cluster.events import BeginIngest, DropIngests, Event
from pybroker.broker.cluster.ingest_orders import Colleagues, PrepareIngest
from pybroker.broker.cluster.port import ControllerPort
from pybroker.broker.cluster.view import ClusterView
from pybroker.broker.ingest.changes import changes_of
from pybroker.broker.ingest.commits import CommitOutcome, Commits
from pybroker.broker.ingest.expiry import Expiry
from pybroker.broker.ingest.joining import Joining
from pybroker.broker.ingest.leader import IngestLeader, StagedIngest
from pybroker.broker.ingest.preparing import Preparing
from pybroker.broker.ingest.removal import Removal
from pybroker.broker.metadata.cache import RemovedTopic
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.ingest_records import COMMITTING, OPEN, IngestKey, IngestRecord
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.native import ListedAttempt, Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

BEGIN_MS = 15_000
"""So long a begin waits for brokers that do not answer; their appends fail until they do."""
R = TypeVar("R")


class IngestView(msgspec.Struct, frozen=True):
    """An ingest as ListIngests shows it."""

    record: IngestRecord
    touched_ms: int
    writers: int
    staged: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition, every attempt counted; empty for a committed one."""


class Ingests:
    """See the module. `start` after the first LeaderAndIsr, before clients are accepted. `colleagues`: None of a broker
    that is alone."""

    def __init__(
        self,
        *,
        broker_id: int,
        leader: IngestLeader,
        colleagues: Colleagues | None,
        view: ClusterView,
        port: ControllerPort,
        config: BrokerConfig,
        clock: Clock,
        resolved_config: Callable[[Uuid], dict[str, str]],
    ) -> None:
        self._broker_id = broker_id
        self._leader = leader
        self._alone = colleagues is None
        self._preparing = Preparing(
            broker_id, leader, view, colleagues, lambda topic: int(resolved_config(topic)["min.insync.replicas"])
        )
        self.joining = Joining(leader, view)
        self._view = view
        self._port = port
        self._config = config
        self._clock = clock
        self._resolved_config = resolved_config
        self._running = False
        self._locks: WeakValueDictionary[IngestKey, asyncio.Lock] = WeakValueDictionary()
        self._work: set[asyncio.Task[Any]] = set()
        self._removal = Removal(leader.drop, self._topic, clock)
        self._commits = Commits(
            broker_id=broker_id,
            alone=self._alone,
            leader=leader,
            preparing=self._preparing,
            view=view,
            port=port,
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
            port=port,
            config=config,
            clock=clock,
            lock=self._lock,
            end=self._end,
            forget_gone=self._forget_gone,
            removal=self._removal,
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Takes up what a former life left: open ingests go on, decided commits are attached, the rest is removed."""
        await self._forget_gone(native=False)
        image = self._view.image
        unfinished = [record for record in image.committed_ingests.values() if record.state == COMMITTING]
        try:
            if image.damaged_ingests:
                log.warning("nothing that ingests have staged is removed: records of ingests are damaged")
            elif removed := await self._leader.collect((*image.ingests.values(), *unfinished)):
                log.info("removed what %d ended ingests had staged", removed)
        except KafkaError as error:
            # It takes room, no more: not a reason to keep the broker from its other data.
            log.warning("what ended ingests had staged could not be removed: %s", error)
        for record in image.ingests.values():
            try:
                await self._leader.open(record)
            except KafkaError as error:
                log.warning("ingest %r cannot go on: %s", record.ingest_id, error)
        self._running = True
        self._commits.start()
        # Also of topics that have come back meanwhile.
        self.topics_shown(self._view.image.names)
        self._expiry.start()

    async def stop(self) -> None:
        """Ends background work; a commit under way is finished or goes on after the next start."""
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
        """The open ingest, or the record of its commit. Raises KafkaError."""
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
                # Never one that an earlier life of this id had: its late appends must not fit.
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
        """Commits what is listed, once. Raises KafkaError when nothing was decided. A client that goes away does not
        stop it."""
        return await asyncio.shield(self._spawn(self._commits.commit(key, epoch, listed, caller)))

    async def abort(self, key: IngestKey, epoch: int, caller: Caller | None = None) -> str | None:
        """Drops an open ingest; gives the state of one that was committed before, else None. Raises KafkaError when
        nothing was decided."""
        async with self._lock(key):
            done = self._view.image.commit_of(key)
            if done is not None:
                return done.state
            known = self._view.image.ingests.get(key)
            if known is None:
                return None
            if epoch not in (-1, known.epoch):
                raise KafkaError(ErrorCode.PRODUCER_FENCED, f"Epoch {epoch} is over, {known.epoch} has begun.")
            await self._end(known, caller)
            return None

    def views(self, include_committed: bool) -> Iterator[IngestView]:
        """All of them as of the first one's turn, open ones first."""
        staged = self._leader.staged()
        image = self._view.image
        for record in image.ingests.values():
            yield IngestView(record, *staged.get(record.key, StagedIngest(record.created_ms, 0, {})))
        for record in image.committed_ingests.values():
            if include_committed or record.state == COMMITTING:
                yield IngestView(record, record.committed_ms, 0, {})

    async def prepare_here(self, order: PrepareIngest) -> Mapping[int, tuple[int, int]]:
        """What another broker, which commits, has this one do. Raises KafkaError."""
        return await self._preparing.here(order)

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def _end(self, record: IngestRecord, caller: Caller | None = None) -> None:
        """Over as soon as it is decided, whatever becomes of the files. Raises KafkaError when it is not."""
        await self._decide(DropIngests(open=((record.key, record.epoch),)), caller=caller)
        if self._alone:
            await self._removal.remove(record)

    def topics_removed(self, removed: Sequence[RemovedTopic]) -> None:
        """Incarnations are no more: what is open for them ends."""
        image = self._view.image
        concerned = {topic_id for topic_id, *_ in image.ingests}
        if self._running and any(topic.topic_id in concerned for topic in removed):
            self._spawn(self._forget_gone())

    def topics_shown(self, shown: Collection[Uuid]) -> None:
        """Incarnations have become visible: what is decided for them is attached. Before `start` nothing is done; it
        looks at all of them."""
        if not self._running:
            return
        for record in self._view.image.committed_ingests.values():
            if record.state == COMMITTING and record.topic_id in shown:
                self._commits.finish_soon(record.key)

    # --- what is decided, with several brokers ------------------------------------------------------------------------

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """`replicas.known_cluster.Obeys`: when it is over, this broker takes appends for what has begun."""
        if self._alone or not self._running:
            # A start looks at everything.
            return
        changes = changes_of(before, after, change)
        for record in changes.opened:
            try:
                await self._leader.open(record)
            except KafkaError as error:
                log.error("ingest %r of topic %s takes nothing here: %s", record.ingest_id, self._topic(record), error)
        for record in changes.reopened:
            self._leader.reopen(record.key, record.epoch)
        for record in changes.over:
            self._spawn(self._remove(record))
        if changes.opened:
            self._expiry.wake()
        if changes.may_attach:
            self._commits.follow(after)

    async def _remove(self, record: IngestRecord) -> None:
        # What runs for it ends first: nothing stages, prepares or attaches what is removed.
        async with self._lock(record.key):
            await self._removal.remove(record)

    async def _forget_gone(self, *, native: bool = True) -> None:
        """Drops the open ingests of deleted topics, and what is remembered of those that cannot come back. Of a topic
        that waits for its removal the commits are remembered: undeleted, it has their records, or gets the rest."""
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
                # What runs for it ends first: nothing stages or prepares what is removed.
                async with self._lock(record.key):
                    await self._removal.remove(record)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _topic(self, record: IngestRecord) -> str:
        """For log lines."""
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

    async def _decide(
        self, event: Event[R], timeout_ms: int | None = None, caller: Caller | None = None
    ) -> R:
        return (await self._port.submit(event, timeout_ms, caller=caller)).reply
