"""The controller client answers each event only after its decision, when the decision is complete or the timeout has
expired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.cluster.events import (
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    NewTopic,
    UndeleteTopic,
)
from pybroker.broker.controller import local_controller_client
from pybroker.broker.controller.controller_election import SoleController
from pybroker.broker.controller.internal_events import RemoveLeftovers
from pybroker.broker.controller.local_controller_client import LocalControllerClient
from pybroker.broker.metadata.control_messages import ControlRequest, LeaderAndIsrRequest, RestoreReplicasRequest
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.control_plane import ControlPlane, until

GENEROUS_MS = 60_000


class HoldingBroker:
    """A broker that holds orders of these kinds until the test releases them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: type) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.waiting = 0
        handle = ControlReceiver.handle

        async def slow(receiver: ControlReceiver, request: ControlRequest) -> Any:
            if isinstance(request, kinds):
                self.waiting += 1
                await self.free.wait()
            return await handle(receiver, request)

        monkeypatch.setattr(ControlReceiver, "handle", slow)


def topic(name: str) -> CreateTopics:
    return CreateTopics((NewTopic(name, 1, 1, None, {}),), False, 0, 100)


async def test_an_answer_in_force_is_seen_by_who_asked(control_plane: ControlPlane) -> None:
    await control_plane.start()
    controller, view = control_plane.parts.controller, control_plane.parts.services.view
    created = await controller.submit(topic("a"))
    assert created.is_complete
    (made,) = created.reply
    assert isinstance(made, CreatedTopic)
    assert view.image.topics["a"].topic_id == made.topic_id
    assert [order.topic for order in control_plane.native.applies[-1]] == ["a"]
    deleted = await controller.submit(DeleteTopics((made.topic_id,), "User:a", 200, 50))
    assert (deleted.is_complete, deleted.reply) == (True, [DeletedTopic("a", made.topic_id)])
    assert "a" not in view.image.topics
    assert control_plane.parts.services.cache.topic("a") is None


async def test_time_is_over_before_it_is_in_force(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HoldingBroker(monkeypatch, LeaderAndIsrRequest, RestoreReplicasRequest)
    await control_plane.start()
    controller = control_plane.parts.controller
    held.free.clear()
    created = await controller.submit(topic("a"), timeout_ms=1)
    (made,) = created.reply
    assert isinstance(made, CreatedTopic), "it is decided"
    assert not created.is_complete
    held.free.set()
    # The event is decided nevertheless.
    await until(lambda: control_plane.parts.services.cache.topic("a"))
    await controller.submit(DeleteTopics((made.topic_id,), "User:a", 200, 50_000))
    held.free.clear()
    undeleted = await controller.submit(UndeleteTopic(made.topic_id, None, "User:a", 300), timeout_ms=1)
    assert not undeleted.is_complete
    held.free.set()
    await until(lambda: control_plane.parts.services.cache.topic("a"))


async def test_who_goes_away_stops_nothing(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HoldingBroker(monkeypatch, LeaderAndIsrRequest)
    await control_plane.start()
    held.free.clear()
    asker = asyncio.create_task(control_plane.parts.controller.submit(topic("a")))
    await until(lambda: held.waiting == 2)  # the first order belongs to the registration
    asker.cancel()
    await asyncio.gather(asker, return_exceptions=True)
    held.free.set()
    await until(lambda: control_plane.parts.services.cache.topic("a"))


async def test_who_waits_when_the_controller_stops_is_answered(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HoldingBroker(monkeypatch, RestoreReplicasRequest)
    await control_plane.start()
    parts = control_plane.parts
    (made,) = (await parts.controller.submit(topic("a"))).reply
    assert isinstance(made, CreatedTopic)
    await parts.controller.submit(DeleteTopics((made.topic_id,), "User:a", 200, 50_000))
    held.free.clear()
    asker = asyncio.create_task(parts.controller.submit(UndeleteTopic(made.topic_id, None, "User:a", 300)))
    await until(lambda: held.waiting)
    stopping = asyncio.create_task(parts.election.stop())
    await asyncio.sleep(0)
    with pytest.raises(KafkaError) as refused:
        await parts.controller.submit(topic("b"))
    assert refused.value.code == ErrorCode.NOT_CONTROLLER
    held.free.set()
    await stopping
    reply = (await asker).reply
    assert isinstance(reply, KafkaError)
    assert reply.code == ErrorCode.NOT_CONTROLLER
    # The decision was stored before any broker got it; the next start completes it.
    await control_plane.stop()
    await control_plane.start()
    await until(lambda: control_plane.parts.services.cache.topic("a"))


async def test_a_stop_ends_with_its_own_events_in_the_queue(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await control_plane.start()
    election, client = control_plane.parts.election, control_plane.parts.controller
    assert isinstance(election, SoleController)
    assert isinstance(client, LocalControllerClient)
    controller, free = election._controller, asyncio.Event()
    decide = controller._run_apart

    async def slow(work: Callable[[], Any], *, many: bool) -> Any:
        await free.wait()
        return await decide(work, many=many)

    monkeypatch.setattr(controller, "_run_apart", slow)
    for name in "ab":
        controller._report(RemoveLeftovers(name))
    # The controller takes one event at a time.
    await until(lambda: client.waiting == 1)
    stopping = asyncio.create_task(election.stop())
    await asyncio.sleep(0)
    free.set()
    async with asyncio.timeout(60):
        await stopping


async def test_events_wait_in_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_controller_client, "EVENTS_QUEUED_MAX", 2)
    controller = LocalControllerClient(1)
    with pytest.raises(KafkaError) as closed:
        await controller.submit(topic("a"))
    assert closed.value.code == ErrorCode.NOT_CONTROLLER
    controller.open(None)
    waiting = [asyncio.create_task(controller.submit(topic(name), GENEROUS_MS)) for name in "ab"]
    await asyncio.sleep(0)
    with pytest.raises(KafkaError) as refused:
        await controller.submit(topic("c"))
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    controller.refuse_queued(KafkaError(ErrorCode.NOT_CONTROLLER))
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in results] == [KafkaError, KafkaError]
