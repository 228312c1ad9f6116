"""Shards of a test coordinator, which stores a list of words: they are loaded and unloaded with the leadership."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.log import BATCH_BYTES_MAX, ShardLog
from pybroker.broker.coordinators.shards.shard import Shard, ShardState
from pybroker.broker.coordinators.shards.shards import LOAD_RETRY_MS, SHORT_OF_REPLICAS_MS, Shards
from pybroker.broker.coordinators.shards.timers import TimerWheel
from pybroker.errors import KafkaError
from pybroker.native import StoredRecord
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import FakeLog, FakeTopics

TOPIC, KEY = "__words", "a key"
PARTITIONS = 3


class Words:
    def __init__(self) -> None:
        self.alive: dict[bytes, bytes] = {}

    def take(self, record: StoredRecord) -> None:
        assert record.key is not None
        if record.value is None:
            self.alive.pop(record.key, None)
        else:
            self.alive[record.key] = record.value


class WordShard(Shard[Words]):
    def __init__(self, log: ShardLog) -> None:
        super().__init__(log)
        self.words: dict[bytes, bytes] = {}
        self.gave_up: ErrorCode | None = None

    def replay(self) -> Words:
        return Words()

    def install(self, loaded: Words) -> None:
        self.words = loaded.alive

    def give_up(self, error: ErrorCode) -> None:
        self.gave_up = error


class World:
    def __init__(self) -> None:
        self.clock, self.log, self.topics = FakeClock(), FakeLog(), FakeTopics()
        self.topics.create(TOPIC, PARTITIONS)
        self.timers = TimerWheel(self.clock)
        self.made: list[WordShard] = []
        loop = asyncio.get_running_loop()
        self.turn = EndOfBatchHook(loop)
        dependencies = CoordinatorDependencies(
            1, self.clock, loop, self.turn, self.log, self.log, self.topics, self.topics
        )
        self.shards = Shards(TOPIC, dependencies, self.timers, self._make, lambda: 1 << 20)
        self.shards.start()

    def _make(self, log: ShardLog) -> WordShard:
        self.made.append(WordShard(log))
        return self.made[-1]

    @property
    def mine(self) -> WordShard:
        return self.shards.of(KEY)

    async def write(self, key: bytes, value: bytes | None) -> ErrorCode:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.mine.log.write([(key, value)], lambda error, _: done.set_result(error))
        return await done

    def refusal(self) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            self.shards.of(KEY)
        return ErrorCode(caught.value.code)


@pytest.mark.checklist("R34")
async def test_leadership_loads_and_its_loss_drops_everything() -> None:
    world = World()
    for word in (b"x", b"y"):
        assert await world.write(word, b"1") is ErrorCode.NONE
    assert await world.write(b"y", None) is ErrorCode.NONE
    first = world.mine
    assert [shard.partition for shard in world.shards] == [0, 1, 2]
    world.topics.lead(TOPIC, first.partition, 2, 1)
    assert (first.gave_up, world.refusal()) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    refused: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    first.log.write([(b"z", b"1")], lambda error, _: refused.set_result(error))
    assert await refused is ErrorCode.NOT_COORDINATOR, "a shard that was dropped writes nothing"
    world.topics.lead(TOPIC, first.partition, 1, 2)
    assert world.refusal() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await world.shards.loaded()
    assert world.mine is not first
    assert world.mine.words == {b"x": b"1"}
    assert await world.write(b"z", b"1") is ErrorCode.NONE
    assert world.log.epochs == [0, 0, 0, 2]


@pytest.mark.checklist("R34")
async def test_the_same_leader_under_another_epoch_loads_anew_and_under_the_same_one_does_not() -> None:
    world = World()
    await world.write(b"x", b"1")
    first = world.mine
    world.topics.lead(TOPIC, first.partition, 1, 0)
    assert world.mine is first
    world.topics.lead(TOPIC, first.partition, 1, 1)
    await world.shards.loaded()
    assert first.gave_up is ErrorCode.NOT_COORDINATOR
    assert world.mine is not first
    assert world.mine.words == {b"x": b"1"}


@pytest.mark.checklist("R34")
async def test_leadership_that_is_lost_during_the_load_leaves_nothing_behind() -> None:
    world = World()
    await world.write(b"x", b"1")
    partition = world.mine.partition
    read, going, go = world.log.read_records, threading.Event(), threading.Event()

    def slow(*asked: Any) -> Any:
        going.set()
        assert go.wait(60)
        return read(*asked)

    world.log.read_records = slow  # type: ignore[method-assign]  # a disk that takes its time
    world.topics.lead(TOPIC, partition, 1, 1)
    loading = world.made[-1]
    assert await asyncio.to_thread(going.wait, 60)
    world.topics.lead(TOPIC, partition, 2, 2)
    go.set()
    await world.shards.loaded()
    assert (loading.state, loading.words) == (ShardState.LOADING, {})
    assert world.refusal() is ErrorCode.NOT_COORDINATOR
    assert partition not in [shard.partition for shard in world.shards]


async def test_a_retry_ends_with_the_leadership() -> None:
    world = World()
    await world.write(b"x", b"1")
    partition = world.mine.partition
    world.log.read_records = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]  # a log that fails
    world.topics.lead(TOPIC, partition, 1, 1)
    await world.shards.loaded()
    assert world.refusal() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.topics.lead(TOPIC, partition, 2, 2)
    made = len(world.made)
    world.clock.advance(2 * LOAD_RETRY_MS)
    world.timers.advance()
    assert len(world.made) == made
    assert len(world.timers) == 0


async def test_too_few_replicas_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    for passes_ms in (0, SHORT_OF_REPLICAS_MS - 1, 1):
        world.clock.advance(passes_ms)
        assert await world.write(b"x", b"1") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await world.write(b"x", b"1") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    told = [record for record in caplog.records if "NOT_ENOUGH_REPLICAS" in record.getMessage()]
    assert [record.levelno for record in told] == [logging.WARNING, logging.WARNING]


async def test_partitions_that_are_added_and_a_new_incarnation_are_taken_over() -> None:
    world = World()
    before = list(world.shards)
    topic_id = world.topics.ids[TOPIC]
    world.topics.counts[topic_id] = PARTITIONS + 1
    world.topics.lead(TOPIC, PARTITIONS, 1, 0)
    assert [shard.partition for shard in world.shards] == [0, 1, 2, 3]
    assert list(world.shards)[:PARTITIONS] == before
    world.topics.remove(TOPIC)
    assert (list(world.shards), world.refusal()) == ([], ErrorCode.NOT_COORDINATOR)
    successor = world.topics.create(TOPIC, 1)
    assert [shard.log.topic_id for shard in world.shards] == [successor]


async def test_a_stop_answers_those_who_wait_and_follows_nobody() -> None:
    world = World()
    mine = world.mine
    await world.shards.stop()
    assert mine.gave_up is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.topics.lead(TOPIC, 0, 1, 5)
    assert (list(world.shards), world.refusal()) == ([], ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_what_a_turn_writes_goes_out_at_its_end_and_is_told_with_it() -> None:
    world = World()
    world.log.at_once = True
    told: list[tuple[ErrorCode, int]] = []

    def write(key: bytes) -> None:
        world.mine.log.write([(key, b"1")], lambda error, at: told.append((error, at)))

    world.turn.begin()
    write(b"x")
    write(b"y")
    assert (world.log.batches, told) == (0, [])
    world.turn.run()
    assert (world.log.batches, told) == (1, [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)])
    world.log.refuse = ErrorCode.FENCED_LEADER_EPOCH
    world.turn.begin()
    write(b"z")
    world.turn.run()
    assert told[2:] == [(ErrorCode.NOT_COORDINATOR, -1)]
    await asyncio.wait_for(world.mine.log.drained(), 60)


async def test_nobody_is_told_in_the_middle_of_a_write() -> None:
    """A large write first flushes the waiting writes; their callbacks run after the writing call has returned."""
    world = World()
    world.log.at_once = True
    told: list[str] = []
    large = b"v" * BATCH_BYTES_MAX

    world.turn.begin()
    world.mine.log.write([(b"x", b"1")], lambda *_: told.append("x"))
    world.mine.log.write([(b"y", large)], lambda *_: told.append("y"))
    world.mine.log.write_in_transaction((1, 0), [(b"z", b"1")], lambda *_: told.append("z"))
    assert (world.log.batches, told) == (3, [])
    assert [key for key, _ in world.log.records] == [b"x", b"y", b"z"]
    world.turn.run()
    assert told == ["x", "y", "z"]
