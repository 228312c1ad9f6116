"""How long a broker waits between two probes of a broker that seems dead."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.interbroker import peer_watch
from pybroker.broker.interbroker.peer_watch import PAUSE_S, PeerWatch
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.znodes import Endpoint
from pybroker.client.client_errors import BrokerConnectionError
from pybroker.protocol import interbroker as wire

OWN, DEAD, WITNESS = 1, 2, 3
LISTENER = "BETWEEN"


class Others:
    """This broker's metadata: one broker is dead, and the witness confirms it."""

    def __init__(self) -> None:
        endpoint = Endpoint(LISTENER, "127.0.0.1", 1, "PLAINTEXT")
        self.brokers = {number: BrokerImage(number, number, (endpoint,), None) for number in (OWN, DEAD, WITNESS)}
        self.leaving: frozenset[int] = frozenset()
        self.image = self
        self.leadership = ControllerLeadership()
        self.leadership.set_controller(DEAD)

    def on_change(self, tell: Any) -> None:
        self.callback = tell

    def registers_again(self) -> None:
        before = self.brokers[DEAD]
        self.brokers = {**self.brokers, DEAD: BrokerImage(DEAD, before.epoch + 10, before.endpoints, None)}
        self.callback()

    def endpoint(self, broker: BrokerImage) -> Endpoint:
        return broker.endpoints[0]

    async def __call__(self, broker: BrokerImage) -> Any:
        if broker.broker_id == DEAD:
            raise BrokerConnectionError("nobody is there")
        return SimpleNamespace(lost=asyncio.Event().wait, abort=lambda: None)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the watch; each lasts only one turn of the loop."""
    waited: list[float] = []
    turn = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await turn(0)

    async def refuses(host: str, port: int) -> bool:
        del host, port
        return True

    async def ask_once(*_: object) -> Any:
        return wire.ProbeBrokerResponse(refused=True)

    monkeypatch.setattr(peer_watch.asyncio, "sleep", sleep)
    monkeypatch.setattr(peer_watch, "refuses", refuses)
    monkeypatch.setattr(peer_watch, "ask_once", ask_once)
    return waited


async def test_who_takes_a_dead_controllers_office_fences_it_at_once(waits: list[float]) -> None:
    """A recent result about the controller does not cause a wait."""
    others: Any = Others()
    fenced: asyncio.Future[set[float]] = asyncio.get_running_loop().create_future()

    async def unseat(_: BrokerImage) -> None:
        others.leadership.set_controller(OWN)

    async def fence(_: BrokerImage) -> None:
        if not fenced.done():
            fenced.set_result(set(waits))

    watch = PeerWatch(
        broker_id=OWN, view=others, leadership=others.leadership, open_connection=others, fence=fence, unseat=unseat
    )
    watch.start()
    assert await asyncio.wait_for(fenced, 30) == {0, PAUSE_S}
    await watch.stop()


async def test_who_registers_again_and_again_and_is_never_reached_is_looked_at_less_often(waits: list[float]) -> None:
    others: Any = Others()
    others.leadership.set_controller(OWN)
    lives: list[int] = []
    over = asyncio.Event()

    async def fence(broker: BrokerImage) -> None:
        if broker.epoch not in lives:
            lives.append(broker.epoch)
            others.registers_again()
            if len(lives) == 4:
                over.set()

    watch = PeerWatch(
        broker_id=OWN, view=others, leadership=others.leadership, open_connection=others, fence=fence, unseat=fence
    )
    watch.start()
    await asyncio.wait_for(over.wait(), 30)
    await watch.stop()
    assert {1, 3, 7} <= set(waits)
