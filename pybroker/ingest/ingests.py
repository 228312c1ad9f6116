"""The life of staged ingests: begin, commit, abort, expiry, and what a crash leaves to be finished.

Decisions go through the controller and are in the store before anything follows from them; what the leaders of the
partitions do is in `leader`. One lock an ingest: of two commits that race, the second finds the first one's answer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from pybroker.clock import Clock
from pybroker.cluster.events import BeginIngest, CommitIngest, DropIngests, Event, FinishIngest
from pybroker.cluster.port import ControllerPort
from pybroker.cluster.view import ClusterView
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.ingest.leader import IngestLeader, StagedIngest
from pybroker.ingest.removal import Removal
from pybroker.metadata.cache import RemovedTopic
from pybroker.metadata.ingest_records import COMMITTED, COMMITTING, OPEN, IngestKey, IngestRecord
from pybroker.native import ListedAttempt, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

ROUND_S_MAX = 30.0
"""Longest time between two looks at what has expired."""
ROUND_S_MIN = 0.05
ROUND_S_EACH = 0.0001
"""Shortest time between two looks, and what each open or remembered ingest adds to it: a look costs 0.5 μs each, so
that they take less than a hundredth of the control plane, whatever clients begin and however short its ttl_ms is."""
RETRY_S = 2.0
"""After an attach that failed (a full disk), or a round of the janitor (a bug)."""

R = TypeVar("R")


class CommitOutcome(NamedTuple):
    """The answer to a commit."""

    record: IngestRecord
    repeated: bool
    problem: KafkaError | None
    """Decided, but not all attached yet."""


class IngestView(NamedTuple):
    """An ingest as ListIngests shows it."""

    record: IngestRecord
    touched_ms: int
    writers: int
    staged: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition, every attempt counted; empty for a committed one."""


class Ingests:
    """See the module. `start` after the first LeaderAndIsr, before clients are accepted."""

    def __init__(
        self,
        *,
        leader: IngestLeader,
        view: ClusterView,
        port: ControllerPort,
        config: BrokerConfig,
        clock: Clock,
        resolved_config: Callable[[Uuid], dict[str, str]],
    ) -> None:
        self._leader = leader
        self._view = view
        self._port = port
        self._config = config
        self._clock = clock
        self._resolved_config = resolved_config
        self._running = False
        self._locks: WeakValueDictionary[IngestKey, asyncio.Lock] = WeakValueDictionary()
        self._work: set[asyncio.Task[Any]] = set()
        self._wake = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._finishing: set[IngestKey] = set()
        self._removal = Removal(leader.drop, self._topic, clock)

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
        # Also of topics that have come back meanwhile.
        self.topics_shown(self._view.image.names)
        self._keeper = asyncio.create_task(self._keep(), name="ingests")

    async def stop(self) -> None:
        """Ends background work; a commit under way is finished or goes on after the next start."""
        self._running = False
        work: list[asyncio.Task[Any]] = [*self._work]
        if self._keeper is not None:
            work.append(self._keeper)
            self._keeper = None
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self._leader.stop()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def begin(self, key: IngestKey, ttl_ms: int, join: bool) -> IngestRecord:
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
            record = await self._decide(event)
            if record.state == OPEN:
                if before is not None and before.epoch != record.epoch:
                    await self._removal.remove(before)
                await self._leader.open(record)
        self._wake.set()
        return record

    async def commit(self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt]) -> CommitOutcome:
        """Commits what is listed, once. Raises KafkaError when nothing was decided. A client that goes away does not
        stop it."""
        return await asyncio.shield(self._spawn(self._commit(key, epoch, listed)))

    async def abort(self, key: IngestKey, epoch: int) -> str | None:
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
            await self._end(known)
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

    # --- commit -------------------------------------------------------------------------------------------------------

    async def _commit(self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt]) -> CommitOutcome:
        async with self._lock(key):
            record = self._view.image.commit_of(key)
            repeated = record is not None
            if record is None:
                record = await self._decide_commit(key, epoch, listed)
            problem = None
            if record.state == COMMITTING and record.key == key:
                try:
                    record = await self._attach(record)
                except KafkaError as error:
                    problem = error
        if problem is not None:
            self._finish_soon(key)
        return CommitOutcome(record, repeated, problem)

    async def _decide_commit(self, key: IngestKey, epoch: int, listed: Sequence[ListedAttempt]) -> IngestRecord:
        known = self._view.image.ingests.get(key)
        if known is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "The ingest is not open: never begun, aborted or expired."
            )
        if known.epoch != epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED, f"Epoch {epoch} is over, {known.epoch} has begun.")
        prepared = await self._leader.prepare(key, epoch, listed)
        try:
            record = await self._decide(CommitIngest(key, epoch, prepared, self._clock.wall_ms()))
        except KafkaError:
            self._leader.reopen(key, epoch)
            raise
        if record.key != key:
            # A later batch of the stream was decided meanwhile: this one counts as committed and is of no use.
            await self._end(known)
        elif record.state == COMMITTED:
            await self._removal.remove(record)
        return record

    async def _attach(self, record: IngestRecord) -> IngestRecord:
        started = self._clock.monotonic_ms()
        offsets = await self._leader.attach(record)
        attached_ms = self._clock.monotonic_ms() - started
        finished = await self._decide(FinishIngest(record.key, offsets))
        log.info(
            "ingest %r committed: %d bytes, %d records, attached to %d partitions of topic %s in %d ms",
            record.ingest_id,
            sum(part.bytes for part in record.partitions.values()),
            sum(part.rows for part in record.partitions.values()),
            len(record.partitions),
            self._topic(record),
            attached_ms,
        )
        await self._removal.remove(record)
        return finished

    def _finish_soon(self, key: IngestKey) -> None:
        """However often a client asks, one task goes on with it."""
        if key not in self._finishing:
            self._finishing.add(key)
            self._spawn(self._finish_later(key))

    async def _finish_later(self, key: IngestKey) -> None:
        """Attaches what is decided, until it is done or its topic is deleted; if that comes back, it goes on."""
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
                if self._view.image.topic_by_id(record.topic_id) is None:
                    return
                try:
                    await self._attach(record)
                    return
                except KafkaError as error:
                    log.warning(
                        "ingest %r of topic %s is committed but not attached yet: %s",
                        record.ingest_id,
                        self._topic(record),
                        error,
                    )
            await asyncio.sleep(RETRY_S)

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def _end(self, record: IngestRecord) -> None:
        """Over as soon as it is decided, whatever becomes of the files. Raises KafkaError when it is not."""
        await self._decide(DropIngests(open=((record.key, record.epoch),)))
        await self._removal.remove(record)

    async def _keep(self) -> None:
        while True:
            image = self._view.image
            least = ROUND_S_MIN + ROUND_S_EACH * (len(image.ingests) + len(image.committed_ingests))
            await asyncio.sleep(min(least, ROUND_S_MAX))
            self._wake.clear()
            ttls = [record.ttl_ms for record in self._view.image.ingests.values()]
            retention = self._config["ingest.id.retention.ms"]
            pause = min([ROUND_S_MAX, retention / 4000, *(ttl / 4000 for ttl in ttls)])
            if pause > least:
                await _first(self._wake.wait(), pause - least)
            try:
                await self._expire()
                await self._forget_gone()
                await self._removal.retry()
            except KafkaError as error:
                log.warning("ingests could not be expired: %s", error)
            except Exception:
                # Of this round only: others' disk space waits for the next.
                log.exception("ingests could not be expired: this is a bug in pybroker")
                await asyncio.sleep(RETRY_S)

    async def _expire(self) -> None:
        now_ms = self._clock.wall_ms()
        for record in list(self._view.image.ingests.values()):
            touched = now_ms - record.ttl_ms
            if record.created_ms >= touched:
                continue
            async with self._lock(record.key):
                if self._view.image.ingests.get(record.key) != record:
                    continue
                if await self._leader.expire(record, touched):
                    log.info(
                        "ingest %r of topic %s took nothing for %d ms and is dropped",
                        record.ingest_id,
                        self._topic(record),
                        record.ttl_ms,
                    )
                    await self._end(record)
        before = now_ms - self._config["ingest.id.retention.ms"]
        old = tuple(
            (record.series, record.batch_id)
            for record in self._view.image.committed_ingests.values()
            if record.state == COMMITTED and record.committed_ms < before
        )
        if old:
            await self._decide(DropIngests(committed=old))

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
                self._finish_soon(record.key)

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
        if native:
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

    async def _decide(self, event: Event[R]) -> R:
        return (await self._port.submit(event)).reply


async def _first(wait: Any, seconds: float) -> None:
    try:
        # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the end of the wait.
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        return
