"""Waits of transactions: the next transaction's records follow the end of the previous one at once. A request that
arrives while the previous one is completing gets its response afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.interfaces import (
    TRANSACTIONS_TOPIC,
    CodesCallback,
    Marker,
    TransactionSettings,
)
from pybroker.broker.coordinators.transaction.records import decode_value
from pybroker.broker.coordinators.transaction.transaction import (
    VERSION_2,
    TransactionPartition,
    TransactionProducer,
    TransactionState,
)
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.coordinators.fakes import FakeLog, FakeTopics, Record

ID = "id"
CONFIG = {
    "transaction.max.timeout.ms": 900_000,
    "transactional.id.expiration.ms": 604_800_000,
    "transactional.id.max.bytes.total": 1 << 28,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
    "transaction.state.log.load.buffer.size": 1 << 20,
}


class HeldLog(FakeLog):
    """A log whose held appends the test ends in any order, with any code."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = True
        self.held: list[Callable[[int], None]] = []

    def append(
        self,
        topic_id: Any,
        partition: int,
        leader_epoch: int,
        records: Sequence[Record],
        timestamp_ms: int,
        *,
        callback: Callable[[int, int], None],
        producer: tuple[int, int] | None = None,
    ) -> tuple[int, int] | None:
        ended = super().append(
            topic_id, partition, leader_epoch, records, timestamp_ms, callback=callback, producer=producer
        )
        if ended is None:
            base = len(self.partitions[partition]) - len(records)
            self.held.append(lambda code: callback(code, -1 if code else base))
        return ended

    @property
    def states(self) -> list[TransactionState]:
        return [decode_value(value).state for _, value in self.records if value is not None]


class HeldMarkers:
    """The test decides when a marker is written."""

    def __init__(self) -> None:
        self.hold = False
        self.held: list[Callable[[], None]] = []
        self.written: list[tuple[Marker, tuple[TransactionPartition, ...]]] = []

    def write_then(
        self, broker_id: int, marker: Marker, parts: Sequence[TransactionPartition], callback: CodesCallback
    ) -> None:
        def written() -> None:
            self.written.append((marker, tuple(parts)))
            callback([ErrorCode.NONE] * len(parts))

        if self.hold:
            self.held.append(written)
        else:
            written()

    def release(self) -> None:
        held, self.held, self.hold = self.held, [], False
        for written in held:
            written()


class Ids:
    """Allocates producer ids."""

    last = 0

    async def next_id(self) -> int:
        self.last += 1
        return self.last


class World:
    """A coordinator whose one transactional id has an open transaction of version 2."""

    def __init__(self) -> None:
        nobody: Any = None
        loop = asyncio.get_running_loop()
        self.log, self.markers, self.topics, clock = HeldLog(), HeldMarkers(), FakeTopics(), FakeClock()
        self.topics.create(TRANSACTIONS_TOPIC, 1)
        self.part = TransactionPartition("t", self.topics.create("t", 2), 0)
        self.turn = EndOfBatchHook(loop)
        dependencies = CoordinatorDependencies(1, clock, loop, self.turn, self.log, self.log, self.topics, self.topics)
        finishing = Finishing(self.topics, self.markers, nobody, nobody, clock)
        self.coordinator = TransactionCoordinator(dependencies, TransactionSettings(CONFIG), Ids(), finishing)
        self.coordinator.start()
        self.me = TransactionProducer(-1, -1)

    async def begin(self) -> None:
        self.me = await self.coordinator.initialize(ID, 60_000, None)
        await self.coordinator.add(ID, self.me, [self.part], VERSION_2)

    async def end(self) -> list[ErrorCode]:
        """Return the code of the end, when the coordinator has called back."""
        callback: list[ErrorCode] = []

        def ended(code: ErrorCode, successor: TransactionProducer) -> None:
            callback.append(code)
            self.me = successor

        assert self.coordinator.end_and_bump_then(ID, self.me, ended, commit=True)
        await self.step()
        return callback

    async def add(self, patience_s: float = 60) -> list[ErrorCode]:
        """Return the codes, when the coordinator has called back."""
        callback: list[ErrorCode] = []
        self.coordinator.add_then(ID, self.me, [self.part], callback.append, VERSION_2, patience_s=patience_s)
        await self.step()
        return callback

    async def step(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.001)


async def ready() -> World:
    world = World()
    await world.begin()
    return world


async def test_an_end_whose_markers_wait_for_nothing_is_one_step() -> None:
    """The end is decided, written and completed within one turn of the event loop: no request sees a state in
    between."""
    world = await ready()
    callback: list[ErrorCode] = []
    world.turn.begin()
    assert world.coordinator.end_and_bump_then(ID, world.me, lambda code, _: callback.append(code), commit=True)
    world.turn.run()
    assert callback == [ErrorCode.NONE]
    assert world.log.states == [
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.COMPLETE_COMMIT,
    ]
    assert world.coordinator.describe(ID).state is TransactionState.COMPLETE_COMMIT
    await world.coordinator.stop()


async def test_the_next_transaction_does_not_wait_until_the_end_of_the_last_is_stored() -> None:
    world = await ready()
    world.markers.hold = True
    assert await world.end() == [ErrorCode.NONE], "it is decided"
    world.log.hold = True
    world.markers.release()
    callback = await world.add()
    assert world.log.states[-2:] == [TransactionState.COMPLETE_COMMIT, TransactionState.ONGOING], (
        "one behind the other in the log"
    )
    assert callback == [], "but what is not on disk is not told"
    assert world.coordinator.describe(ID).state is TransactionState.PREPARE_COMMIT, "nor shown"
    for ended in world.log.held:
        ended(0)
    assert callback == [ErrorCode.NONE]
    assert world.coordinator.describe(ID).state is TransactionState.ONGOING
    assert world.coordinator.statistics.commits == 1
    world.log.hold = False
    await world.coordinator.stop()


async def test_the_order_in_which_writes_are_heard_of_does_not_matter() -> None:
    world = await ready()
    world.markers.hold = True
    await world.end()
    world.log.hold = True
    world.markers.release()
    await world.step()
    callback = await world.add()
    end, begin = world.log.held
    begin(0)
    assert callback == [ErrorCode.NONE]
    end(0)
    assert world.coordinator.describe(ID).state is TransactionState.ONGOING
    assert world.coordinator.statistics.commits == 1
    world.log.hold = False
    await world.coordinator.stop()


@pytest.mark.parametrize("next_fails", [False, True])
async def test_an_end_that_could_not_be_stored_is_not_stored_over_what_followed(next_fails: bool) -> None:
    world = await ready()
    world.markers.hold = True
    await world.end()
    world.log.hold = True
    world.markers.release()
    await world.step()
    callback = await world.add()
    end, begin = world.log.held
    world.log.hold = False
    refused = ErrorCode.REQUEST_TIMED_OUT
    end(refused)
    begin(refused if next_fails else 0)
    await until(lambda: world.coordinator.statistics.commits)
    if next_fails:
        assert callback == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert world.coordinator.describe(ID).state is TransactionState.COMPLETE_COMMIT, "it was tried again"
    else:
        assert callback == [ErrorCode.NONE]
        assert world.log.states[-1] is TransactionState.ONGOING
        assert world.coordinator.describe(ID).state is TransactionState.ONGOING
    await world.coordinator.stop()


async def test_who_comes_before_the_markers_are_written_is_told_then() -> None:
    world = await ready()
    world.markers.hold = True
    await world.end()
    callback = await world.add()
    others = await world.add()
    assert world.log.states[-1] is TransactionState.PREPARE_COMMIT
    assert (callback, others) == ([], [])
    world.markers.release()
    await world.step()
    assert (callback, others) == ([ErrorCode.NONE], [ErrorCode.NONE])
    assert world.log.states[-2:] == [TransactionState.COMPLETE_COMMIT, TransactionState.ONGOING], (
        "the second one is part of it already"
    )
    await world.coordinator.stop()


async def test_patience_ends() -> None:
    world = await ready()
    world.markers.hold = True
    await world.end()
    assert await world.add(0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    callback = await world.add(0.01)
    await until(lambda: callback)
    assert callback == [ErrorCode.CONCURRENT_TRANSACTIONS]
    world.markers.release()
    await world.step()
    assert len(callback) == 1
    await world.coordinator.stop()


async def test_who_waits_hears_that_the_coordinator_is_another() -> None:
    world = await ready()
    world.markers.hold = True
    await world.end()
    callback = await world.add()
    world.topics.lead(TRANSACTIONS_TOPIC, 0, 2, 1)
    await world.step()
    assert callback == [ErrorCode.NOT_COORDINATOR]
    world.markers.release()
    await world.step()
    assert world.log.states[-1] is TransactionState.PREPARE_COMMIT, "what moved away is not completed here"
    with pytest.raises(KafkaError):
        world.coordinator.describe(ID)
    await world.coordinator.stop()
