"""Transactions that Apache Kafka stored name topics without ids: which incarnation each name means."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.clock import FakeClock
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.shards.interfaces import CoordinatorDependencies
from pybroker.broker.coordinators.shards.topic_view import CachedTopics
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.finishing import Finishing
from pybroker.broker.coordinators.transaction.interfaces import TRANSACTIONS_TOPIC, TransactionSettings
from pybroker.broker.coordinators.transaction.records import decode_value, encode_key, encode_value
from pybroker.broker.coordinators.transaction.transaction import (
    CoordinatedTransaction,
    TransactionPartition,
    TransactionState,
)
from pybroker.broker.metadata.lineage import CREATED, TopicEvent, TopicLineage
from pybroker.native import Uuid
from tests.unit.coordinators.fakes import FakeLog, FakeTopics
from tests.unit.coordinators.test_transaction_pipeline import CONFIG, HeldMarkers, Ids

ID = "id"
BEGAN_MS, NOW_MS = 1_000, 1_700_000_000_000


class KeptOutcomes:
    """The outcomes that are passed to deletion records."""

    def __init__(self) -> None:
        self.parts: list[TransactionPartition] = []

    async def keep(self, marker: Any, parts: Any) -> frozenset[Uuid]:
        self.parts += parts
        return frozenset()


class World:
    """A log with one transaction of two partitions, as Kafka writes it."""

    def __init__(self, state: TransactionState) -> None:
        self.log, self.topics, self.markers, self.kept = FakeLog(), FakeTopics(), HeldMarkers(), KeptOutcomes()
        self.topics.create(TRANSACTIONS_TOPIC, 1)
        self.known = self.topics.create("known")
        self.topics.lives[self.known] = "known", 0, NOW_MS
        parts = frozenset({TransactionPartition("known", Uuid.ZERO, 0), TransactionPartition("lost", Uuid.ZERO, 0)})
        stored = CoordinatedTransaction(7, 0, 60_000, state, parts, NOW_MS - 5, BEGAN_MS)
        self.log.partitions[0] = [(0, 0, encode_key(ID), encode_value(stored))]

    async def load(self) -> None:
        nobody: Any = None
        loop = asyncio.get_running_loop()
        clock = FakeClock(NOW_MS)
        dependencies = CoordinatorDependencies(
            1, clock, loop, EndOfBatchHook(loop), self.log, self.log, self.topics, self.topics
        )
        finishing = Finishing(self.topics, self.markers, nobody, self.kept, clock)
        self.coordinator = TransactionCoordinator(dependencies, TransactionSettings(CONFIG), Ids(), finishing)
        self.coordinator.start()
        await self.coordinator.loaded()
        async with asyncio.timeout(60):
            while self.states[-1] in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.001)
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def states(self) -> list[TransactionState]:
        return [decode_value(value).state for _, value in self.log.records if value is not None]

    @property
    def marked(self) -> list[tuple[bool, Uuid]]:
        """Return for each written marker whether it commits, and its topic."""
        return [(marker.committed, part.topic_id) for marker, parts in self.markers.written for part in parts]


async def test_it_is_open_where_the_names_meant_what_they_mean_now() -> None:
    world = World(TransactionState.ONGOING)
    lost = world.topics.create("lost")
    world.topics.lives[lost] = "lost", BEGAN_MS, NOW_MS
    await world.load()
    assert world.states == [TransactionState.ONGOING]
    described = world.coordinator.describe(ID)
    assert {part.topic_id for part in described.partitions} == {world.known, lost}


async def test_an_open_one_whose_topic_nobody_can_name_is_aborted() -> None:
    world = World(TransactionState.ONGOING)
    # The topic has the name now, but was created later.
    world.topics.lives[world.topics.create("lost")] = "lost", BEGAN_MS + 1, NOW_MS
    await world.load()
    assert world.states == [TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT]
    assert world.marked == [(False, world.known)]


async def test_a_decided_one_ends_as_it_was_decided_where_its_topics_are() -> None:
    world = World(TransactionState.PREPARE_COMMIT)
    await world.load()
    assert world.states == [TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT]
    assert world.marked == [(True, world.known)]


@pytest.mark.parametrize(
    ("made_ms", "deleted", "meant"),
    [
        (None, [], "present"),
        (100, [], "present"),
        (101, [], None),
        (101, [(None, 100)], "deleted 0"),
        (101, [(101, 200)], None),
        (101, [(None, 99)], None),
        (101, [(0, 300), (0, 200)], "deleted 1"),
    ],
)
def test_who_had_a_name_at_a_time(
    made_ms: int | None, deleted: list[tuple[int | None, int]], meant: str | None
) -> None:
    def lineage(at_ms: int | None) -> TopicLineage:
        return TopicLineage() if at_ms is None else TopicLineage((TopicEvent(CREATED, at_ms, "admin", "t"),))

    present = Uuid.random()
    records: list[Any] = [
        SimpleNamespace(topic="t", topic_id=Uuid.random(), deleted_ms=gone_ms, lineage=lineage(at_ms))
        for at_ms, gone_ms in deleted
    ]
    cache: Any = SimpleNamespace(topic_id=lambda name: present)
    topics = CachedTopics(cache, lambda topic_id: lineage(made_ms), lambda: {one.topic_id: one for one in records})
    names = {None: None, "present": present, **{f"deleted {n}": one.topic_id for n, one in enumerate(records)}}
    assert topics.topic_id_at("t", 100) == names[meant]
