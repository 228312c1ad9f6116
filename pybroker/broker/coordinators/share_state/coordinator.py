"""The share coordinator of this broker, and the client of all share coordinators.

The key of a share state hashes to a partition of `__share_group_state`. The leader of this partition stores the state.
`Persister` finds the leader. It calls this broker directly, and other brokers by Kafka's requests 83 to 87.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pybroker.broker.coordinators.shards.hashing import partition_for
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.broker.coordinators.shards.shard import ShardState
from pybroker.broker.coordinators.shards.shards import Shards
from pybroker.broker.coordinators.shards.timers import WheelDriver
from pybroker.broker.coordinators.share_state.state import Key, ShareState, Write
from pybroker.errors import KafkaError
from pybroker.native import NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.share_state.shard import Done, ShareStateShard

log = logging.getLogger(__name__)

SHARE_STATE_TOPIC = "__share_group_state"


class ShareStatePeers(Protocol):
    """Share coordinators on other brokers.

    Methods raise KafkaError with the code in the response, or if the broker is unreachable.
    """

    async def initialize(self, broker_id: int, key: Key, state_epoch: int, start_offset: int) -> None:
        """See `Persister.initialize`."""
        ...

    async def read(self, broker_id: int, key: Key, leader_epoch: int) -> ShareState:
        """See `Persister.read`."""
        ...

    async def write(self, broker_id: int, key: Key, write: Write) -> None:
        """See `Persister.write`."""
        ...

    async def delete(self, broker_id: int, key: Key) -> None:
        """See `Persister.delete`."""
        ...

    async def summary(self, broker_id: int, key: Key) -> ShareState | None:
        """See `Persister.summary`."""
        ...


class Trimming(Protocol):
    """Deletes the beginning of a partition (`NativePartitions`)."""

    def delete_records(self, topic_id: Uuid, partition: int, offset: int) -> int:
        """Raise the log start offset. *Blocking.* Raise NativeError."""
        ...


class ShareStateCoordinator:
    """The share states that this broker stores. Methods return once changes are durable.

    They raise KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, and the errors of
    `ShareStateShard`.
    """

    def __init__(self, dependencies: CoordinatorDependencies, config: Mapping[str, Any], trimming: Trimming) -> None:
        self._dependencies = dependencies
        self._config = config
        self._trimming = trimming
        self._driver = WheelDriver(dependencies.clock, dependencies.loop)
        self._pruning: asyncio.Task[None] | None = None
        self.shards: Shards[ShareStateShard] = Shards(
            SHARE_STATE_TOPIC,
            dependencies,
            self._driver.wheel,
            self._new_shard,
            lambda: int(config["share.coordinator.load.buffer.size"]),
        )

    def _new_shard(self, shard_log: ShardLog) -> ShareStateShard:
        from pybroker.broker.coordinators.share_state.shard import ShareStateShard

        return ShareStateShard(
            shard_log,
            self._dependencies.clock,
            lambda: int(self._config["share.coordinator.snapshot.update.records.per.snapshot"]),
        )

    def start(self) -> None:
        """Load all shards that this broker leads."""
        self.shards.start()
        self._watch_pruning()

    async def stop(self) -> None:
        """Stop, and wait until pending writes have ended."""
        self._driver.stop()
        if self._pruning is not None:
            self._pruning.cancel()
        await self.shards.stop()

    async def find(self, key: str, listener: str) -> tuple[int, str, int]:
        """See `Shards.find`."""
        return await self.shards.find(key, listener)

    def _shard(self, key: Key) -> ShareStateShard:
        return self.shards.of(key.coordinator_key)

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        """See `ShareStateShard.initialize`."""
        await self._stored(lambda done: self._shard(key).initialize(key, state_epoch, start_offset, done))

    async def write(self, key: Key, write: Write) -> None:
        """See `ShareStateShard.write`."""
        await self._stored(lambda done: self._shard(key).write(key, write, done))

    async def delete(self, key: Key) -> None:
        """See `ShareStateShard.delete`."""
        await self._stored(lambda done: self._shard(key).delete(key, done))

    async def read(self, key: Key, leader_epoch: int) -> ShareState:
        """See `ShareStateShard.read`."""
        future: asyncio.Future[tuple[ErrorCode, ShareState | None]] = self._dependencies.loop.create_future()

        def done(error: ErrorCode, state: ShareState | None) -> None:
            if not future.done():
                future.set_result((error, state))

        self._shard(key).read(key, leader_epoch, done)
        error, state = await future
        if state is None:
            raise KafkaError(error)
        return state

    def summary(self, key: Key) -> ShareState | None:
        """Return the state as it is in the log; None if it does not exist."""
        return self._shard(key).found(key)

    async def _stored(self, begin: Callable[[Done], None]) -> None:
        future: asyncio.Future[ErrorCode] = self._dependencies.loop.create_future()
        begin(lambda error: None if future.done() else future.set_result(error))
        error = await future
        if error is not ErrorCode.NONE:
            raise KafkaError(error)

    # --- pruning ------------------------------------------------------------------------------------------------------

    def _watch_pruning(self) -> None:
        interval_ms = int(self._config["share.coordinator.state.topic.prune.interval.ms"])
        self._driver.wheel.schedule("prune", interval_ms, self._prune)

    def _prune(self) -> None:
        self._watch_pruning()
        if self._pruning is None or self._pruning.done():
            self._pruning = self._dependencies.loop.create_task(self._prune_all())

    async def _prune_all(self) -> None:
        """Delete the records before the last snapshots of all states."""
        for shard in list(self.shards):
            if shard.state is not ShardState.ACTIVE:
                continue
            needed = min((entry.snapshot_offset for entry in shard.entries.values()), default=-1)
            if needed <= shard.pruned_to:
                continue
            try:
                await self._dependencies.loop.run_in_executor(
                    None, self._trimming.delete_records, shard.log.topic_id, shard.partition, needed
                )
                shard.pruned_to = needed
            except NativeError as problem:
                log.info("cannot prune %s-%d now: %s", SHARE_STATE_TOPIC, shard.partition, problem)


class Persister:
    """Calls the coordinator of a share state. `peers`: the other brokers; None on a broker without peers."""

    def __init__(
        self, dependencies: CoordinatorDependencies, coordinator: ShareStateCoordinator, peers: ShareStatePeers | None
    ) -> None:
        self._dependencies = dependencies
        self._coordinator = coordinator
        self._peers = peers

    async def _where(self, key: Key) -> int | None:
        """Return the id of the broker that stores the state; None for this broker. Raise KafkaError
        COORDINATOR_NOT_AVAILABLE."""
        topics = self._dependencies.topics
        topic_id = topics.topic_id(SHARE_STATE_TOPIC)
        if topic_id is None:
            await self._coordinator.shards.ensure_topic()
            topic_id = topics.topic_id(SHARE_STATE_TOPIC)
        partitions = 0 if topic_id is None else topics.partition_count(topic_id)
        if topic_id is None or not partitions:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The topic {SHARE_STATE_TOPIC} is being created.")
        leader, _ = topics.leader(topic_id, partition_for(key.coordinator_key, partitions))
        if leader == self._dependencies.broker_id:
            return None
        if leader < 0 or self._peers is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return leader

    async def initialize(self, key: Key, state_epoch: int, start_offset: int) -> None:
        """Create a state. If it exists, set its start offset and the later state epoch."""
        broker = await self._where(key)
        if broker is None:
            await self._coordinator.initialize(key, state_epoch, start_offset)
        else:
            assert self._peers is not None
            await self._peers.initialize(broker, key, state_epoch, start_offset)

    async def read(self, key: Key, leader_epoch: int) -> ShareState:
        """Return the state to the leader of the partition in this epoch, and fence earlier leaders."""
        broker = await self._where(key)
        if broker is None:
            return await self._coordinator.read(key, leader_epoch)
        assert self._peers is not None
        return await self._peers.read(broker, key, leader_epoch)

    async def write(self, key: Key, write: Write) -> None:
        """Write a change. Return when it is durable."""
        broker = await self._where(key)
        if broker is None:
            await self._coordinator.write(key, write)
        else:
            assert self._peers is not None
            await self._peers.write(broker, key, write)

    async def delete(self, key: Key) -> None:
        """Delete a state."""
        broker = await self._where(key)
        if broker is None:
            await self._coordinator.delete(key)
        else:
            assert self._peers is not None
            await self._peers.delete(broker, key)

    async def summary(self, key: Key) -> ShareState | None:
        """Return the state without its batches; None if there is none."""
        broker = await self._where(key)
        if broker is None:
            return self._coordinator.summary(key)
        assert self._peers is not None
        return await self._peers.summary(broker, key)
