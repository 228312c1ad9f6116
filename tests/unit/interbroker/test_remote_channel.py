"""What the controller says to one broker arrives in order, once it can, and holds nobody else up."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pybroker.client.errors import BrokerConnectionError
from pybroker.interbroker.connection import InterBrokerConnection
from pybroker.interbroker.remote_channel import RemoteChannel
from pybroker.metadata.control_messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from pybroker.protocol.error_codes import ErrorCode


def order(number: int) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(1, 1, number, 1, [], [])


class Broker:
    """The other end of the channel's connections, one after the other."""

    def __init__(self, *, lost: int = 0, mute: bool = False) -> None:
        self.lost = lost
        """Connections that break at the first message."""
        self.mute = mute
        self.dialled = 0
        self.heard: list[int] = []
        self.is_open = True

    async def dial(self) -> InterBrokerConnection:
        self.dialled += 1
        return cast(InterBrokerConnection, self)

    async def drain(self) -> None:
        pass

    def start(self, message: Any) -> asyncio.Future[Any]:
        if self.lost:
            self.lost -= 1
            raise BrokerConnectionError("lost")
        self.heard.append(message.broker_epoch)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.mute:
            answer.set_result(LeaderAndIsrResponse(0))
        return answer

    async def answer_to(self, message: Any, answer: asyncio.Future[Any], *, timeout_s: float) -> Any:
        return await answer

    def abort(self) -> None:
        self.is_open = False


@pytest.mark.checklist("R35")
async def test_orders_keep_their_order_and_are_tried_again() -> None:
    broker = Broker(lost=2)
    channel = RemoteChannel(2, broker.dial, asyncio.Lock())
    answers = [channel.send(order(number)) for number in range(5)]
    assert [one.error_code for one in await asyncio.gather(*answers)] == [0] * 5
    assert broker.heard == list(range(5))


@pytest.mark.checklist("R35")
async def test_a_broker_that_says_nothing_holds_up_no_other_one() -> None:
    turn = asyncio.Lock()
    hanging, well = Broker(mute=True), Broker()
    silent, channel = RemoteChannel(2, hanging.dial, turn), RemoteChannel(3, well.dial, turn)
    waiting = [silent.send(order(number)) for number in range(3)]
    answers = [channel.send(order(number)) for number in range(3)]
    assert [one.error_code for one in await asyncio.gather(*answers)] == [0] * 3
    assert hanging.heard == [0], "one order at a time"
    # The end of that life of the broker is the end of what was meant for it.
    silent.close()
    late = [one.result().error_code for one in waiting if one.done()]
    assert late == [ErrorCode.STALE_BROKER_EPOCH] * len(waiting)
    assert (await silent.send(order(9))).error_code == ErrorCode.STALE_BROKER_EPOCH
