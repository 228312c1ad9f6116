"""The shards of this broker: which groups live here, and where the others do.

A group belongs to the partition of `__consumer_offsets` that its id hashes to, and lives on that partition's leader.
The shards load off the loop; until then their groups answer COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from pybroker.clock import Clock
from pybroker.coordinators.group.figures import GroupFigures
from pybroker.coordinators.group.hashing import partition_for
from pybroker.coordinators.group.loading import Loaded, install, read_partition
from pybroker.coordinators.group.ports import OFFSETS_TOPIC, Appends, Reads, Settings, TopicCreator, Topics
from pybroker.coordinators.group.shard import Removals, Shard, ShardState
from pybroker.coordinators.group.shard_log import ShardLog
from pybroker.coordinators.group.timers import TimerWheel
from pybroker.errors import KafkaError
from pybroker.native import NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

GROUP_ID_BYTES_MAX = 0x7FFF
"""The stored key has 16 bits for its length."""

LOAD_THREADS = 2
"""Shards that are read at the same time: more would only contend for the interpreter."""

LOAD_RETRY_MS = 5_000
"""A shard whose log could not be read is tried again after this."""


class Shards:
    """See the module. Iterates over all shards that are led here, loaded or not."""

    def __init__(
        self,
        *,
        broker_id: int,
        settings: Settings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        appends: Appends,
        reads: Reads,
        topics: Topics,
        creator: TopicCreator,
        timers: TimerWheel,
        removals: Removals,
        figures: GroupFigures,
    ) -> None:
        self._broker_id = broker_id
        self._settings = settings
        self._clock = clock
        self._loop = loop
        self._appends = appends
        self._reads = reads
        self._topics = topics
        self._creator = creator
        self._timers = timers
        self._removals = removals
        self._figures = figures
        self._shards: dict[int, Shard] = {}
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._creating: asyncio.Task[None] | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._stopped = False

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards.values())

    def start(self) -> None:
        """Takes over all shards that this broker leads."""
        topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        if topic_id is not None:
            for partition in range(self._topics.partition_count(topic_id)):
                if self._topics.leader(OFFSETS_TOPIC, partition) == self._broker_id:
                    self.take_over(partition)

    async def loaded(self) -> None:
        """Waits until every shard that is being loaded has been."""
        while self._loads:
            await asyncio.wait(list(self._loads.values()))

    async def stop(self) -> None:
        """Answers whoever waits with COORDINATOR_NOT_AVAILABLE and waits for writes that are on their way."""
        self._stopped = True
        for task in self._loads.values():
            task.cancel()
        shards = list(self._shards.values())
        for shard in shards:
            shard.give_up_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for shard in shards:
            await shard.log.drained()
        self._shards.clear()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def take_over(self, partition: int) -> None:
        """This broker leads an offsets partition from now on: loads its groups."""
        topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        if topic_id is None or partition in self._shards or self._stopped:
            return
        shard = self._shards[partition] = Shard(
            partition,
            ShardLog(self._appends, topic_id, partition, self._clock, self._loop),
            clock=self._clock,
            topics=self._topics,
            removals=self._removals,
            settings=self._settings,
            timers=self._timers,
            figures=self._figures,
        )
        self._load(shard, topic_id)

    def resign(self, partition: int) -> None:
        """Another broker leads an offsets partition: whoever waits here is sent there."""
        task = self._loads.pop(partition, None)
        if task is not None:
            task.cancel()
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.give_up_all(ErrorCode.NOT_COORDINATOR)

    def resign_all(self) -> None:
        """The offsets topic is gone, and every group with it."""
        for partition in list(self._shards):
            self.resign(partition)

    def _load(self, shard: Shard, topic_id: Uuid) -> None:
        ends = self._reads.offsets(topic_id, shard.partition)
        if ends is not None and ends.log_end_offset <= ends.log_start_offset:
            install(shard, Loaded(), self._topics)
            shard.state = ShardState.ACTIVE
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(LOAD_THREADS, "group-load")
        task = self._loop.create_task(self._load_in_thread(shard, topic_id, self._executor))
        self._loads[shard.partition] = task
        task.add_done_callback(lambda done: self._load_over(shard.partition, done))

    def _load_over(self, partition: int, task: asyncio.Task[None]) -> None:
        if self._loads.get(partition) is task:
            del self._loads[partition]

    async def _load_in_thread(self, shard: Shard, topic_id: Uuid, executor: ThreadPoolExecutor) -> None:
        try:
            loaded = await self._loop.run_in_executor(
                executor,
                read_partition,
                self._reads,
                topic_id,
                shard.partition,
                self._settings.load_buffer_bytes,
            )
            install(shard, loaded, self._topics)
        except Exception as problem:
            shard.state = ShardState.FAILED
            expected = isinstance(problem, (NativeError, KafkaError, OSError))
            log.error(
                "offsets partition %d cannot be read, its groups are not served: %s",
                shard.partition,
                problem,
                exc_info=None if expected else problem,
            )
            self._timers.schedule(("load", shard.partition), LOAD_RETRY_MS, lambda: self._load_again(shard.partition))
        else:
            shard.state = ShardState.ACTIVE

    def _load_again(self, partition: int) -> None:
        shard = self._shards.get(partition)
        if shard is not None and shard.state is ShardState.FAILED:
            self.resign(partition)
            self.take_over(partition)

    async def find(self, group_id: str, listener: str) -> tuple[int, str, int]:
        """(broker id, host, port) of a group's coordinator; creates the offsets topic if there is none yet.

        KafkaError: INVALID_GROUP_ID is left to the requests themselves; COORDINATOR_NOT_AVAILABLE while nobody leads.
        """
        topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        if topic_id is None:
            await self._create_offsets_topic()
            topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        partitions = 0 if topic_id is None else self._topics.partition_count(topic_id)
        if not partitions:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The offsets topic is being created.")
        partition = partition_for(group_id, partitions)
        leader = self._topics.leader(OFFSETS_TOPIC, partition)
        endpoint = self._topics.endpoint(leader, listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group's coordinator has no leader now.")
        if leader == self._broker_id:
            self.take_over(partition)
        return leader, endpoint[0], endpoint[1]

    async def _create_offsets_topic(self) -> None:
        # Many clients ask at once when a cluster is new; one creation serves them all.
        if self._creating is None or self._creating.done():
            self._creating = self._loop.create_task(self._create())
        try:
            await asyncio.shield(self._creating)
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The offsets topic cannot be created: {error}"
            ) from error

    async def _create(self) -> None:
        await self._creator.ensure_internal(OFFSETS_TOPIC)

    def of(self, group_id: str, *, empty_allowed: bool = False) -> Shard:
        """The shard that answers for a group. KafkaError: INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_…"""
        if self._stopped:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if (not group_id and not empty_allowed) or (
            len(group_id) > GROUP_ID_BYTES_MAX // 4 and len(group_id.encode()) > GROUP_ID_BYTES_MAX
        ):
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        partitions = 0 if topic_id is None else self._topics.partition_count(topic_id)
        if not partitions:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        partition = partition_for(group_id, partitions)
        shard = self._shards.get(partition)
        if shard is None:
            if self._topics.leader(OFFSETS_TOPIC, partition) != self._broker_id:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            self.take_over(partition)
            shard = self._shards[partition]
        shard.check_active()
        return shard
