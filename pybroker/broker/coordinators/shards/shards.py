"""The shards of one coordinator on this broker, and the lookup of the broker that coordinates a key.

A key (group id, transactional id) hashes to a partition of an internal topic, and that partition's leader coordinates
the key. After each change of the metadata image, this broker loads the partitions that it leads in a new leader epoch,
in worker threads. It drops the partitions that it no longer leads, with all their state. Each write contains the leader
epoch of the load. If another broker has become the leader, and this broker does not know it yet, its writes therefore
fail. Until a shard is loaded, requests for its keys get COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from pybroker.broker.coordinators.shards.hashing import partition_for
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies, Reads
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.broker.coordinators.shards.shard import Replay, Shard, ShardState
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.errors import KafkaError
from pybroker.native import NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

LOAD_THREADS = 2
"""Number of shards that load at the same time. More threads would only compete for Python's interpreter lock."""

LOAD_RETRY_MS = 5_000
"""Milliseconds before the broker tries again to load a shard whose log could not be read."""

SHORT_OF_REPLICAS_MS = 60_000
"""Minimum number of milliseconds between two warnings about too few in-sync replicas, because clients keep retrying."""

S = TypeVar("S", bound=Shard[Any])


class Shards(Generic[S]):
    """All shards of partitions that this broker leads, also while they are loading; iterable.

    topic: name of the internal topic. make: creates a shard for the log of a partition. buffer_bytes: returns how many
    bytes one read fetches while a shard loads; called for each load, because the setting is dynamic.
    """

    def __init__(
        self,
        topic: str,
        dependencies: CoordinatorDependencies,
        timers: TimerWheel,
        make: Callable[[ShardLog], S],
        buffer_bytes: Callable[[], int],
    ) -> None:
        self._topic = topic
        self._dependencies = dependencies
        self._timers = timers
        self._make = make
        self._buffer_bytes = buffer_bytes
        self._shards: dict[int, S] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._creating: asyncio.Task[object] | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._started = False
        self._said_short_ms: int | None = None

    def __iter__(self) -> Iterator[S]:
        return iter(self._shards.values())

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load all shards that this broker leads, and follow leadership changes."""
        self._started = True
        self._dependencies.topics.on_leaders_changed(self._topic, self.follow_leaders)
        self.follow_leaders()

    async def loaded(self) -> None:
        """Wait until no shard is loading."""
        while self._loads:
            await asyncio.wait(list(self._loads.values()))

    async def stop(self) -> None:
        """Answer waiting clients with COORDINATOR_NOT_AVAILABLE and wait for writes in flight."""
        self._started = False
        for task in self._loads.values():
            task.cancel()
        shards = list(self._shards.values())
        for shard in shards:
            shard.give_up(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            shard.log.close()
        for shard in shards:
            await shard.log.drained()
        self._shards.clear()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def follow_leaders(self) -> None:
        """Compare the partitions that this broker leads with the existing shards.

        Drop shards whose leader, leader epoch or topic id has changed, and load new shards.
        """
        if not self._started:
            return
        topics = self._dependencies.topics
        topic_id = topics.topic_id(self._topic)
        led: dict[int, int] = {}
        if topic_id is not None:
            for partition in range(topics.partition_count(topic_id)):
                leader, epoch = topics.leader(topic_id, partition)
                if leader == self._dependencies.broker_id:
                    led[partition] = epoch
        for partition, shard in list(self._shards.items()):
            if shard.log.topic_id != topic_id or shard.log.leader_epoch != led.get(partition):
                self._drop(partition)
        if topic_id is not None:
            for partition, epoch in led.items():
                if partition not in self._shards:
                    self._take_over(topic_id, partition, epoch)

    def _drop(self, partition: int) -> None:
        task = self._loads.pop(partition, None)
        if task is not None:
            task.cancel()
        self._timers.cancel(self._retry_key(partition))
        shard = self._shards.pop(partition)
        shard.give_up(ErrorCode.NOT_COORDINATOR)
        shard.log.close()

    # --- loading ------------------------------------------------------------------------------------------------------

    def _take_over(self, topic_id: Uuid, partition: int, leader_epoch: int) -> None:
        dependencies = self._dependencies
        shard = self._make(
            ShardLog(
                dependencies,
                self._topic,
                topic_id,
                partition,
                leader_epoch,
                short_of_replicas=self._note_short_of_replicas,
            )
        )
        self._shards[partition] = shard
        ends = dependencies.reads.offsets(topic_id, partition)
        if ends is not None and ends.log_end_offset <= ends.log_start_offset:
            shard.install(shard.replay())
            shard.state = ShardState.ACTIVE
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(LOAD_THREADS, f"load-{self._topic}")
        task = dependencies.loop.create_task(self._load(shard, self._executor))
        self._loads[partition] = task
        task.add_done_callback(lambda done: self._load_over(partition, done))

    def _load_over(self, partition: int, task: asyncio.Task[None]) -> None:
        if self._loads.get(partition) is task:
            del self._loads[partition]

    async def _load(self, shard: S, executor: ThreadPoolExecutor) -> None:
        try:
            replay = shard.replay()
            await self._dependencies.loop.run_in_executor(
                executor, read_partition, self._dependencies.reads, shard.log, replay, self._buffer_bytes()
            )
            shard.install(replay)
        except Exception as problem:
            shard.state = ShardState.FAILED
            expected = isinstance(problem, (NativeError, KafkaError, OSError))
            log.error(
                "cannot read a partition of coordinators; its groups and transactions are not served "
                "partition=%s-%d: %s",
                self._topic,
                shard.partition,
                problem,
                exc_info=None if expected else problem,
            )
            self._timers.schedule(
                self._retry_key(shard.partition), LOAD_RETRY_MS, lambda: self._load_again(shard.partition)
            )
        else:
            shard.state = ShardState.ACTIVE

    def _retry_key(self, partition: int) -> tuple[str, str, int]:
        return "load", self._topic, partition

    def _load_again(self, partition: int) -> None:
        shard = self._shards.get(partition)
        if shard is not None and shard.state is ShardState.FAILED:
            self._drop(partition)
            self.follow_leaders()

    def _note_short_of_replicas(self) -> None:
        now_ms = self._dependencies.clock.monotonic_ms()
        if self._said_short_ms is None or now_ms - self._said_short_ms >= SHORT_OF_REPLICAS_MS:
            self._said_short_ms = now_ms
            log.warning(
                "writes to %s are refused (NOT_ENOUGH_REPLICAS): fewer replicas are in sync than min.insync.replicas "
                "asks for; at most one such line a minute",
                self._topic,
            )

    # --- lookup -------------------------------------------------------------------------------------------------------

    async def find(self, key: str, listener: str) -> tuple[int, str, int]:
        """Return (broker id, host, port) of a key's coordinator; create the internal topic if it does not exist.

        Raise KafkaError COORDINATOR_NOT_AVAILABLE while the partition has no leader.
        """
        topics = self._dependencies.topics
        topic_id = topics.topic_id(self._topic)
        if topic_id is None:
            await self.ensure_topic()
            topic_id = topics.topic_id(self._topic)
        partitions = 0 if topic_id is None else topics.partition_count(topic_id)
        if topic_id is None or not partitions:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The topic {self._topic} is being created.")
        leader, _ = topics.leader(topic_id, partition_for(key, partitions))
        endpoint = topics.endpoint(leader, listener)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The partition of the coordinator of {key!r} has no leader now."
            )
        return leader, endpoint[0], endpoint[1]

    async def ensure_topic(self) -> None:
        """Create the internal topic. Raise KafkaError COORDINATOR_NOT_AVAILABLE if that fails."""
        # In a new cluster many clients send FindCoordinator at the same time. One creation is enough for all of them.
        if self._creating is None or self._creating.done():
            self._creating = self._dependencies.loop.create_task(self._create())
        try:
            await asyncio.shield(self._creating)
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The topic {self._topic} cannot be created: {error}"
            ) from error

    async def _create(self) -> object:
        return await self._dependencies.creator.ensure_internal(self._topic)

    def of(self, key: str) -> S:
        """Return the shard of a key. Raise KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or
        COORDINATOR_LOAD_IN_PROGRESS."""
        if not self._started:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        topic_id = self._dependencies.topics.topic_id(self._topic)
        partitions = 0 if topic_id is None else self._dependencies.topics.partition_count(topic_id)
        shard = self._shards.get(partition_for(key, partitions)) if partitions else None
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        shard.check_active()
        return shard


def read_partition(reads: Reads, shard_log: ShardLog, replay: Replay, buffer_bytes: int) -> None:
    """Replay all records of a shard's partition. Blocking. Raise NativeError if the log cannot be read."""
    offset = 0
    while True:
        read = reads.read_records(shard_log.topic_id, shard_log.partition, offset, buffer_bytes)
        for record in read.records:
            replay.take(record)
        if read.next_offset <= offset:
            return
        offset = read.next_offset
