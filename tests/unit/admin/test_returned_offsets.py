"""Who gets offsets back, and until when it is tried: the coordinators of the groups are played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pybroker.broker.admin.returned_offsets import ReturnedOffsets
from pybroker.broker.cluster.events import OffsetsRestored
from pybroker.broker.controller.topics import new_topic
from pybroker.broker.controller.undelete import decide_offsets_restored
from pybroker.broker.metadata.deletion_records import LIVE, STAGED, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

OLD, NEW = Uuid.random(), Uuid.random()
KEPT: tuple[Mapping[str, Any], ...] = ({"group": "here"}, {"group": "there"})


class Played:
    """View, port and coordinators of one broker."""

    def __init__(self, record: DeletionRecord) -> None:
        self.image = ClusterImage.initial(1).apply(ImageDelta(deletions=(record,)))
        for name, topic_id in (("old", OLD), ("new", NEW)):
            made = new_topic(
                self.image, name, topic_id, replicas=[(1,)], config={}, lineage=TopicLineage(), created_ms=1
            )
            self.image = self.image.apply(ImageDelta(topics=(made,)))
        self.codes = {"here": ErrorCode.NONE, "there": ErrorCode.NOT_COORDINATOR}
        self.asked: list[tuple[Uuid, list[str]]] = []
        self.told: list[OffsetsRestored] = []
        self.decides = asyncio.Event()
        self.refusals = 0
        self.waits = 0
        self.offsets = ReturnedOffsets(self, self, self.give_back, self.loaded)  # type: ignore[arg-type]

    def give_back(
        self, topic_id: Uuid, _: str, kept: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Awaitable[ErrorCode]]:
        self.asked.append((topic_id, [one["group"] for one in kept]))
        found: dict[str, asyncio.Future[ErrorCode]] = {}
        for one in kept:
            found[one["group"]] = asyncio.get_running_loop().create_future()
            found[one["group"]].set_result(self.codes[one["group"]])
        return found

    async def loaded(self) -> None:
        self.waits += 1
        self.codes = dict.fromkeys(self.codes, ErrorCode.NONE)

    async def submit(self, event: OffsetsRestored) -> None:
        await self.decides.wait()
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self.told.append(event)
        self.decide(event)

    def decide(self, event: OffsetsRestored) -> None:
        self.image = self.image.apply(decide_offsets_restored(self.image, event).delta)


def record(state: str, target: Uuid | None) -> DeletionRecord:
    return DeletionRecord("old", OLD, state, 1, 2, "", 3, {0: (1,)}, {}, 0, offsets=KEPT, offsets_for=target)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # no event tells
        await asyncio.sleep(0.01)


async def until_idle(played: Played) -> None:
    await until(lambda: not played.offsets._restoring)


@pytest.mark.checklist("U2", "U3")
async def test_a_topic_is_undeleted_while_its_successor_gets_the_offsets() -> None:
    played = Played(record(STAGED, NEW))
    played.codes = dict.fromkeys(played.codes, ErrorCode.NONE)
    played.offsets.start()
    assert played.asked == [(NEW, ["here", "there"])]
    await asyncio.sleep(0)
    undeleted = msgspec.structs.replace(played.image.deletions[OLD], state=LIVE, offsets_for=OLD)
    played.image = played.image.apply(ImageDelta(deletions=(undeleted,)))
    played.offsets.topics_shown([OLD])
    assert played.asked[1:] == [(OLD, ["here", "there"])], "in the same turn"
    played.decides.set()
    await until_idle(played)
    assert OLD not in played.image.deletions
    assert len(played.told) == 2


@pytest.mark.checklist("U3", "R32")
async def test_each_broker_gives_theirs_to_its_groups() -> None:
    """And goes on until the others have, whose coordinator may become this one."""
    played = Played(record(LIVE, OLD))
    played.decides.set()
    played.refusals = 1
    played.offsets.start()
    await until(lambda: played.told)
    assert played.told == [OffsetsRestored(OLD, OLD, ("here",))]
    assert played.image.deletions[OLD].offsets_given == ("here",)
    played.codes["there"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await until_idle(played)
    assert played.asked[-1] == (OLD, ["there"])
    assert (played.waits, played.told[1:]) == (1, [OffsetsRestored(OLD, OLD, ("there",))])
    assert OLD not in played.image.deletions


@pytest.mark.checklist("U3", "R32")
async def test_who_has_nothing_left_to_give_stops() -> None:
    played = Played(record(LIVE, OLD))
    played.decides.set()
    played.offsets.start()
    await until(lambda: played.told)
    played.decide(OffsetsRestored(OLD, NEW, ("there",)))
    assert OLD in played.image.deletions, "that is about another one"
    played.decide(OffsetsRestored(OLD, OLD, ("there",)))
    assert OLD not in played.image.deletions
    await until_idle(played)
    assert played.asked == [(OLD, ["here", "there"])]


@pytest.mark.checklist("U3")
async def test_groups_are_waited_for_at_a_start_in_the_middle_of_an_undelete() -> None:
    assert Played(record(UNDELETING, None)).offsets.pending
    assert not Played(record(STAGED, None)).offsets.pending
