"""In a metadata quorum, a decision is durable when a majority has committed its delta."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.broker.controller.decision import Decision, nothing
from pybroker.broker.controller.decision_writer import ResignedError
from pybroker.broker.controller.quorum_writer import QuorumWriter
from pybroker.broker.controller.request_deduplication import OutcomeChange
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, RequestOutcome
from pybroker.broker.metadata.metadata_store import Create
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.support.memory_quorum import MemoryLog, MemoryQuorum

CHANGE = Decision((Create("/not/for/a/log"),), ImageDelta(next_producer_id=1_000), None)
BEFORE = ClusterImage.initial(1)


@pytest.fixture
def quorum() -> MemoryQuorum:
    return MemoryQuorum()


@pytest.fixture
def log(quorum: MemoryQuorum) -> MemoryLog:
    log = quorum.node(1)
    quorum.node(2)
    quorum.elect(1)
    return log


def loaded(log: MemoryLog) -> MetadataLoader:
    def fatal(problem: Exception) -> None:
        raise problem

    loader = MetadataLoader(fatal)
    log.listen(loader)
    return loader


async def test_a_decision_is_in_the_image_when_it_is_written(log: MemoryLog) -> None:
    loader, writer = loaded(log), QuorumWriter(log, 1)
    end = await writer.write_decision(BEFORE, CHANGE, None, None)
    assert (loader.image.next_producer_id, loader.image.offset, loader.image.controller_epoch) == (1_000, end, 1)


async def test_the_outcome_of_a_request_is_written_with_it(log: MemoryLog) -> None:
    loader, writer = loaded(log), QuorumWriter(log, 1)
    first, second = Uuid.random(), Uuid.random()
    await writer.write_decision(BEFORE, CHANGE, OutcomeChange(first, RequestOutcome(1, "A", b"a"), ()), None)
    assert loader.image.outcomes == {first: RequestOutcome(1, "A", b"a")}
    await writer.write_decision(BEFORE, CHANGE, OutcomeChange(second, RequestOutcome(2, "B", None), (first,)), None)
    assert loader.image.outcomes == {second: RequestOutcome(2, "B", None)}


def test_only_changes_of_the_image_are_written(log: MemoryLog) -> None:
    writer = QuorumWriter(log, 1)
    assert writer.changes_anything(CHANGE)
    assert not writer.changes_anything(nothing(None))
    assert not writer.changes_anything(Decision((Create("/a"),), ImageDelta(), None))


async def test_a_deposed_leader_resigns(quorum: MemoryQuorum, log: MemoryLog) -> None:
    writer = QuorumWriter(log, 1)
    await writer.confirm()
    quorum.elect(2)
    with pytest.raises(ResignedError):
        await writer.confirm()
    with pytest.raises(ResignedError) as refused:
        await writer.write_decision(BEFORE, CHANGE, None, None)
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert log.proposed == []


@pytest.mark.parametrize(("outcome", "code"), [(False, ErrorCode.REQUEST_TIMED_OUT), (True, ErrorCode.NOT_CONTROLLER)])
async def test_an_unknown_fate_is_repeated_only_if_a_successor_knows_the_outcome(
    quorum: MemoryQuorum, log: MemoryLog, *, outcome: bool, code: ErrorCode
) -> None:
    writer = QuorumWriter(log, 1)
    quorum.stuck = True
    kept = OutcomeChange(Uuid.random(), RequestOutcome(1, "A", b"a"), ()) if outcome else None
    writing = asyncio.create_task(writer.write_decision(BEFORE, CHANGE, kept, None))
    await log.stuck.wait()
    quorum.elect(2)
    with pytest.raises(ResignedError) as refused:
        await writing
    assert refused.value.code == code


async def test_nothing_is_written_after_the_deadline(log: MemoryLog) -> None:
    writer = QuorumWriter(log, 1)
    with pytest.raises(KafkaError) as late:
        await writer.write_decision(BEFORE, CHANGE, None, asyncio.get_running_loop().time())
    assert late.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert log.proposed == []
