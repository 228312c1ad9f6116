"""The end of a controller whose own broker is not registered: its messages wait for the registration."""

from __future__ import annotations

import asyncio

from pybroker.broker.controller.local_channel import LocalChannel, LocalOnly
from pybroker.broker.metadata.control_messages import (
    CloseTopics,
    CloseTopicsResponse,
    ControlRequest,
    ControlResponse,
    refusal,
)
from pybroker.broker.replicas.controller_fence import ControllerFence
from pybroker.protocol.error_codes import ErrorCode


def message(controller_epoch: int, broker_epoch: int) -> CloseTopics:
    return CloseTopics(1, controller_epoch, broker_epoch, (), 1)


class UnregisteredBroker:
    """A broker that has started and is not registered yet."""

    def __init__(self) -> None:
        self.fence = ControllerFence()
        self.channel = LocalChannel(self._handle, self.fence.term_ended)

    async def _handle(self, request: ControlRequest) -> ControlResponse:
        refused = await self.fence.admit(request.controller_epoch, request.broker_epoch)
        return refusal(request, refused) if refused else CloseTopicsResponse(0)


async def test_a_controller_ends_although_its_own_broker_is_not_registered() -> None:
    """Without a controller the broker cannot register. If it is elected again, its next term begins after this end."""
    broker = UnregisteredBroker()
    send = broker.channel.send
    answers = [broker.channel.ask(message(5, 1)), send(message(5, 1)), send(message(5, 1))]
    await asyncio.wait(answers, timeout=0)
    assert not any(answer.done() for answer in answers)
    await asyncio.wait_for(LocalOnly(1, broker.channel).close(), 10)
    assert [answer.result().error_code for answer in answers] == [ErrorCode.STALE_CONTROLLER_EPOCH] * 3


async def test_messages_of_the_next_controller_wait_for_the_registration() -> None:
    broker = UnregisteredBroker()
    ended, later = broker.channel.ask(message(5, 1)), asyncio.ensure_future(broker.fence.admit(6, 2))
    await broker.channel.drain()
    assert ended.done()
    assert not later.done()
    broker.fence.registered(2)
    assert await later == ErrorCode.NONE
    assert await broker.fence.admit(6, 1) == ErrorCode.STALE_BROKER_EPOCH
