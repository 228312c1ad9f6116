"""A broker's metadata follows the controller's changes in order, or the broker gets the whole image again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.metadata.control_messages import ControlRequest, LeaderAndIsrRequest, UpdateCluster
from pybroker.broker.metadata.image import ClusterImage, ConfigImage, ImageDelta
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.control_plane import ControlPlane, until
from tests.unit.controller.test_messages import create


class ChangeRecorder:
    """Record each change with the images before and after it."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, object]] = []

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        self.told.append((len(before.floors), len(after.floors), change))


def change(number: int, what: ImageDelta | ClusterImage, epoch: int = 5) -> UpdateCluster:
    return UpdateCluster(1, epoch, 1, number, what)


@pytest.mark.checklist("R31")
async def test_changes_follow_on_one_another() -> None:
    obedient = ChangeRecorder()
    known = KnownCluster([obedient])
    a, b, c = (ImageDelta(floors={name: 1}) for name in "abc")
    whole = ClusterImage.initial(5).apply(a)
    refused = ErrorCode.INVALID_UPDATE_VERSION
    assert (await known.update(change(1, a))).error_code == refused, "nothing is known yet"
    assert (await known.update(change(3, whole))).error_code == 0
    assert (await known.update(change(5, c))).error_code == refused, "one is missing"
    assert (await known.update(change(4, b, epoch=6))).error_code == refused, "another controller's"
    assert (await known.update(change(4, b))).error_code == 0
    assert (await known.update(change(4, b))).error_code == refused, "known already"
    assert set(known.image.floors) == {"a", "b"}
    assert obedient.told == [(0, 1, whole), (1, 2, b)]


async def test_who_looks_at_the_image_hears_of_a_new_one_before_anybody_obeys_it() -> None:
    seen: list[tuple[int, set[str]]] = []
    obedient = ChangeRecorder()
    known = KnownCluster([obedient])
    known.on_image_replaced(lambda: seen.append((len(obedient.told), set(known.image.floors))))
    await known.update(change(1, ClusterImage.initial(5)))
    await known.update(change(2, ImageDelta(floors={"a": 1})))
    await known.update(change(2, ImageDelta(floors={"a": 1})))
    assert seen == [(0, set()), (1, {"a"})]


class Slow:
    """Applies one change after the other, when the test allows it."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.in_force: set[str] = set()
        self.begun = 0

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        self.begun += 1
        if "old" in after.floors and "new" not in after.floors:
            await self.may.wait()
        self.in_force = set(after.floors)


@pytest.mark.checklist("R31")
async def test_a_new_controller_speaks_while_the_last_ones_change_is_obeyed() -> None:
    """The change takes effect when it is shown, not when it arrives."""
    slow = Slow()
    known = KnownCluster([slow])
    old = ClusterImage.initial(5).apply(ImageDelta(floors={"old": 1}))
    new = ClusterImage.initial(6).apply(ImageDelta(floors={"old": 1, "new": 1}))
    first = asyncio.create_task(known.update(change(1, old)))
    await until(lambda: slow.begun)
    second = asyncio.create_task(known.update(change(1, new, epoch=6)))
    late = asyncio.create_task(known.update(change(2, old)))
    reached = asyncio.create_task(known.reached(5, 1))
    await asyncio.sleep(0)
    assert not reached.done(), "it is shown, and not in force"
    slow.may.set()
    answers = [await one for one in (first, second, late)]
    assert [one.error_code for one in answers] == [0, 0, ErrorCode.STALE_CONTROLLER_EPOCH]
    await reached
    assert slow.in_force == set(known.image.floors) == {"old", "new"}


@pytest.mark.checklist("R12")
async def test_who_has_missed_a_change_gets_the_whole_image(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handle = ControlReceiver.handle
    lost = 0

    async def lossy(self: ControlReceiver, request: ControlRequest) -> Any:
        nonlocal lost
        if isinstance(request, UpdateCluster) and isinstance(request.change, ImageDelta) and not lost:
            lost += 1
            control_plane.parts.services.view._number -= 1  # type: ignore[attr-defined]  # as if one had not come
        return await handle(self, request)

    monkeypatch.setattr(ControlReceiver, "handle", lossy)
    await control_plane.start()
    first = await create(control_plane, "a", 1)
    view = control_plane.parts.services.view
    await until(lambda: "a" in view.image.topics)
    assert "missed a metadata change" in caplog.text
    second = await create(control_plane, "b", 1)
    assert {one.topic_id for one in view.image.topics.values()} == {first, second}


async def test_settings_are_in_force_before_a_replica_is_opened(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = control_plane
    said: list[ControlRequest] = []
    handle = ControlReceiver.handle

    async def listening(self: ControlReceiver, request: ControlRequest) -> Any:
        said.append(request)
        return await handle(self, request)

    monkeypatch.setattr(ControlReceiver, "handle", listening)
    broker = await plane.start()
    assert isinstance(said[0], UpdateCluster)
    assert isinstance(said[0].change, ClusterImage)
    assert isinstance(said[1], LeaderAndIsrRequest)
    assert plane.native.calls.index("set_settings") < plane.native.calls.index("start_accepting")
    assert broker.services is not None
    assert broker.services.view.image.broker_configs.get("<default>", ConfigImage({}, -1)).config == {}
