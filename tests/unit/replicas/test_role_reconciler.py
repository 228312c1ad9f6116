"""Wrong roles of a broker's own partitions, and when the broker corrects them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from pybroker.broker.cluster.events import Event, LogEndsTold, ReplicasOffline
from pybroker.broker.metadata.control_messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    TopicPartitionErrors,
    UpdateMetadataPartitionState,
)
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.znodes import MISSING_LOG
from pybroker.broker.replicas.role_reconciler import RoleReconciler, wrong_role
from pybroker.native import PartitionRole, Uuid
from pybroker.protocol.error_codes import ErrorCode

ME, OTHER = 1, 2
TOPIC = Uuid.random()


def led(leader: int, epoch: int) -> PartitionImage:
    return PartitionImage((ME, OTHER), leader, epoch, (ME, OTHER), 1, 0)


def role(leader: int, epoch: int, *, fenced: bool = False, offline: bool = False) -> PartitionRole:
    return PartitionRole(0, epoch, leader, fenced, offline)


@pytest.mark.parametrize(
    ("shown", "here", "settled", "wrong"),
    [
        (led(ME, 3), role(ME, 3), -1, None),
        (led(OTHER, 3), role(OTHER, 3), -1, None),
        (led(-1, 3), role(-1, 3), -1, None),
        # This broker's metadata is out of date.
        (led(OTHER, 3), role(ME, 4), -1, None),
        # The controller knows both problems.
        (led(ME, 3), role(-1, 3, offline=True), -1, None),
        (led(OTHER, 3), None, 3, None),
        (led(OTHER, 3), None, 4, None),
        (led(OTHER, 3), None, 2, "should follow 2 but is not open"),
        (led(OTHER, 0), None, -1, "should follow 2 but is not open"),
        (led(ME, 3), None, 3, "should lead but is not open"),
        (led(ME, 3), role(OTHER, 2), -1, "follows 2 in epoch 2 but should lead"),
        (led(ME, 3), role(ME, 2), -1, "leads in epoch 2 but should lead"),
        (led(ME, 3), role(-1, -1), -1, "follows -1 in epoch -1 but should lead"),
        (led(OTHER, 3), role(ME, 2), -1, "leads in epoch 2 but should follow 2"),
    ],
)
def test_what_is_wrong(shown: PartitionImage, here: PartitionRole | None, settled: int, wrong: str | None) -> None:
    assert wrong_role(shown, here, ME, settled) == wrong


class Scene:
    """Everything that a reconciler reads and calls."""

    def __init__(self) -> None:
        self.partition = led(ME, 3)
        self.seen = (ME, 3)
        self.here: PartitionRole | None = role(ME, 3)
        self.closed = False
        self.busy = False
        self.opened = 0
        self.code = 0
        self.expired: list[int] = []
        self.orders: list[LeaderAndIsrRequest] = []
        self.told: list[Event[Any]] = []
        self.controller_id = 7
        this = cast(Any, self)
        self.reconciler = RoleReconciler(
            broker_id=ME,
            broker_epoch=lambda: 5,
            partitions=this,
            view=this,
            cache=this,
            closing=this,
            replicas=this,
            on_led=lambda _: None,
            controller=this,
        )

    @property
    def image(self) -> ClusterImage:
        topic = TopicImage("t", TOPIC, (self.partition,), {}, 0, 0, -1)
        return ClusterImage.initial(2).apply(ImageDelta(topics=(topic,)))

    def topic_by_id(self, _: Uuid) -> Any:
        class Shown:
            partitions = (UpdateMetadataPartitionState(0, 1, *self.seen, (), 0, (), ()),)

        return Shown

    def roles(self, _: Uuid) -> Sequence[PartitionRole]:
        return [] if self.here is None else [self.here]

    async def expire(self, controller_epoch: int) -> int:
        self.expired.append(controller_epoch)
        return 0

    def is_closed(self, _: Uuid) -> bool:
        return self.closed

    async def open_left(self, _: Uuid) -> None:
        self.opened += 1
        self.here = role(ME, 3)

    def settled_epoch(self, *_: object) -> int:
        return -1

    async def apply_again(self, request: LeaderAndIsrRequest, still_due: Any) -> LeaderAndIsrResponse | None:
        if not still_due():
            return None
        self.orders.append(request)
        if not self.code:
            self.here = role(self.partition.leader, self.partition.leader_epoch)
        return LeaderAndIsrResponse(0, [TopicPartitionErrors(TOPIC, [PartitionError(0, self.code)])])

    async def submit(self, event: Event[Any], _: int) -> None:
        self.told.append(event)

    async def passes(self, count: int) -> None:
        for _ in range(count):
            await self.reconciler.reconcile()


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_what_two_passes_find_is_mended(scene: Scene) -> None:
    scene.here = role(OTHER, 2)
    await scene.passes(1)
    assert scene.orders == []
    await scene.passes(3)
    (order,) = scene.orders
    assert (order.controller_id, order.controller_epoch, order.broker_epoch) == (7, 2, 5)
    ((state,),) = [topic.partition_states for topic in order.topic_states]
    assert (state.leader, state.leader_epoch, state.is_new) == (ME, 3, False)


async def test_closings_of_a_controller_end_when_two_passes_have_seen_another(scene: Scene) -> None:
    await scene.passes(2)
    assert scene.expired == [-1, 2]


async def test_an_order_that_is_on_its_way_is_not_lost(scene: Scene) -> None:
    """Clients do not see the epoch yet: UpdateMetadata comes after LeaderAndIsr."""
    scene.here, scene.seen = role(OTHER, 2), (OTHER, 2)
    await scene.passes(3)
    assert scene.orders == []


async def test_a_fence_is_left_alone_as_long_as_a_decision_is_awaited(scene: Scene) -> None:
    scene.here, scene.closed = role(ME, 3, fenced=True), True
    await scene.passes(3)
    scene.closed, scene.busy = False, True
    await scene.passes(3)
    assert scene.opened == 0
    scene.busy = False
    await scene.passes(2)
    assert (scene.opened, scene.reconciler.wrong) == (1, ())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.LOG_DIR_NOT_FOUND, LogEndsTold(ME, 5, ((TOPIC, 0, -1, MISSING_LOG),))),
        (ErrorCode.KAFKA_STORAGE_ERROR, ReplicasOffline(ME, ((TOPIC, 0),), 5)),
    ],
)
async def test_what_cannot_be_mended_is_told_once_and_stays_known(
    scene: Scene, code: ErrorCode, told: Event[Any]
) -> None:
    scene.here, scene.code = None, int(code)
    await scene.passes(5)
    assert len(scene.orders) == 1
    assert scene.told == [told]
    assert [one.found for one in scene.reconciler.wrong] == ["should lead but is not open"]
