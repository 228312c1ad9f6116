"""Which groups get their offsets back, and for how long the broker retries. The groups' coordinators are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pybroker.broker.admin import restored_offsets
from pybroker.broker.admin.restored_offsets import LateOffsets, RestoredOffsets
from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.cluster.events import KeepOffsets, OffsetsRestored
from pybroker.broker.controller.topic_decisions import new_topic
from pybroker.broker.controller.undelete import decide_keep_offsets, decide_offsets_restored
from pybroker.broker.metadata.deletion_records import DELETING, LIVE, STAGED, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.lineage import TopicLineage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

OLD, NEW = Uuid.random(), Uuid.random()
KEPT: tuple[Mapping[str, Any], ...] = ({"group": "here", "partition": 0}, {"group": "there", "partition": 0})


class FakeBroker:
    """The cluster view, the controller client and the coordinators of one broker."""

    def __init__(self, record: DeletionRecord) -> None:
        self.image = ClusterImage.initial(1).apply(ImageDelta(deletions=(record,)))
        for name, topic_id in (("old", OLD), ("new", NEW)):
            made = new_topic(
                self.image, name, topic_id, replicas=[(1,)], config={}, lineage=TopicLineage(), created_ms=1
            )
            self.image = self.image.apply(ImageDelta(topics=(made,)))
        self.codes = {"here": ErrorCode.NONE, "there": ErrorCode.NOT_COORDINATOR}
        self.asked: list[tuple[Uuid, list[str]]] = []
        self.told: list[KeepOffsets | OffsetsRestored] = []
        self.decides = asyncio.Event()
        self.refusals = 0
        self.waits = 0
        self.offsets = RestoredOffsets(self, self, self.give_back, self.loaded, lambda _: True)  # type: ignore[arg-type]

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

    async def submit(self, event: KeepOffsets | OffsetsRestored) -> EventAnswer[Any]:
        await self.decides.wait()
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self.told.append(event)
        if isinstance(event, OffsetsRestored):
            self.decide(event)
        return EventAnswer(False, True)

    def keep(self, event: KeepOffsets) -> ImageDelta:
        delta = decide_keep_offsets(self.image, event).delta
        self.image = self.image.apply(delta)
        return delta

    async def obeyed(self, delta: ImageDelta) -> None:
        await self.offsets.apply_change(self.image, self.image, delta)

    def decide(self, event: OffsetsRestored) -> None:
        self.image = self.image.apply(decide_offsets_restored(self.image, event).delta)


def record(state: str, target: Uuid | None) -> DeletionRecord:
    return DeletionRecord("old", OLD, state, 1, 2, "", 3, {0: (1,)}, {}, 0, offsets=KEPT, offsets_for=target)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # no event tells
        await asyncio.sleep(0.01)


async def until_idle(played: FakeBroker) -> None:
    await until(lambda: not played.offsets._restoring)


@pytest.mark.checklist("U2", "U3")
async def test_a_topic_is_undeleted_while_its_successor_gets_the_offsets() -> None:
    played = FakeBroker(record(STAGED, NEW))
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
    """The broker retries until the other coordinators respond; it may become one of them."""
    played = FakeBroker(record(LIVE, OLD))
    played.decides.set()
    played.refusals = 1
    played.offsets.start()
    await until(lambda: played.told)
    assert played.told == [OffsetsRestored(OLD, OLD, ("here",), 2)]
    assert played.image.deletions[OLD].offsets_given == ("here",)
    played.codes["there"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await until_idle(played)
    assert played.asked[-1] == (OLD, ["there"])
    assert (played.waits, played.told[1:]) == (1, [OffsetsRestored(OLD, OLD, ("there",), 2)])
    assert OLD not in played.image.deletions


@pytest.mark.checklist("U3", "R32")
async def test_who_has_nothing_left_to_give_stops() -> None:
    played = FakeBroker(record(LIVE, OLD))
    played.decides.set()
    played.offsets.start()
    await until(lambda: played.told)
    played.decide(OffsetsRestored(OLD, NEW, ("there",), 2))
    assert OLD in played.image.deletions, "that is about another one"
    played.decide(OffsetsRestored(OLD, OLD, ("there",), 2))
    assert OLD not in played.image.deletions
    await until_idle(played)
    assert played.asked == [(OLD, ["here", "there"])]


def late(*groups: str) -> KeepOffsets:
    return KeepOffsets(OLD, tuple({"group": group, "partition": 0} for group in groups))


@pytest.mark.checklist("U3", "R32")
@pytest.mark.parametrize("state", [DELETING, STAGED, UNDELETING])
def test_late_offsets_join_the_deletion_record(state: str) -> None:
    played = FakeBroker(record(state, None))
    played.image = played.image.apply(ImageDelta(removed=(played.image.topics["old"],)))
    played.keep(late("late"))
    played.keep(late("late"))
    after = played.image.deletions[OLD]
    assert [offset["group"] for offset in after.offsets] == ["here", "there", "late"]
    assert (after.state, after.offsets_for) == (state, None)


@pytest.mark.checklist("U3", "R32")
async def test_late_offsets_are_restored_though_the_topic_is_live_again() -> None:
    played = FakeBroker(record(LIVE, OLD))
    played.image = played.image.apply(ImageDelta(forgotten_deletions=(OLD,)))
    played.codes["late"] = ErrorCode.NONE
    played.offsets.start()
    played.decides.set()
    await played.obeyed(played.keep(late("late")))
    await until_idle(played)
    assert played.asked == [(OLD, ["late"])]
    assert OLD not in played.image.deletions


@pytest.mark.checklist("U3", "R32")
def test_a_report_about_earlier_offsets_does_not_count_for_later_ones() -> None:
    """A group has its offset back, and meanwhile the record gets a later one: the offset of a transaction."""
    played = FakeBroker(record(LIVE, OLD))
    mark = played.image.deletions[OLD].offsets_mark
    later = KeepOffsets(OLD, ({"group": "here", "partition": 0, "log_offset": 9},))
    played.keep(later)
    played.keep(KeepOffsets(OLD, ({"group": "here", "partition": 0, "log_offset": 8},)))
    assert played.image.deletions[OLD].offsets == (KEPT[1], *later.offsets)
    played.decide(OffsetsRestored(OLD, OLD, ("here", "there"), mark))
    assert played.image.deletions[OLD].offsets_given == ()
    played.decide(OffsetsRestored(OLD, OLD, ("here", "there"), played.image.deletions[OLD].offsets_mark))
    assert OLD not in played.image.deletions


@pytest.mark.checklist("U2", "R32")
@pytest.mark.parametrize("keeps", [True, False])
def test_late_offsets_go_to_a_successor_that_keeps_offsets(keeps: bool) -> None:
    played = FakeBroker(msgspec.structs.replace(record(STAGED, None), successor=NEW))
    new = played.image.topics["new"]
    lineage = TopicLineage(start_offsets=(7,) if keeps else ())
    replaced = msgspec.structs.replace(new, lineage=lineage)
    played.image = played.image.apply(ImageDelta(topics=(replaced,), removed=(played.image.topics["old"],)))
    played.keep(late("late"))
    assert played.image.deletions[OLD].offsets_for == (NEW if keeps else None)


async def test_only_missing_offsets_are_sent_and_again_until_they_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored_offsets, "RETRY_S", 0.001)
    played = FakeBroker(record(STAGED, None))
    played.refusals = 1
    played.decides.set()
    sender = LateOffsets(played, played)  # type: ignore[arg-type]
    stored: list[str] = []
    assert not sender.keep(OLD, KEPT, lambda _: stored.append("known"))
    assert not sender.keep(NEW, KEPT, lambda _: stored.append("no record"))
    owed = sender.keep(OLD, (*KEPT, {"group": "late", "partition": 0}), lambda _: stored.append("late"))
    assert (owed, stored) == ({("late", 0)}, [])
    await until(lambda: stored)
    assert stored == ["late"]
    assert played.told == [late("late")]
    await sender.stop()


@pytest.mark.checklist("U3")
async def test_groups_are_waited_for_at_a_start_in_the_middle_of_an_undelete() -> None:
    assert FakeBroker(record(UNDELETING, None)).offsets.pending
    assert not FakeBroker(record(STAGED, None)).offsets.pending
