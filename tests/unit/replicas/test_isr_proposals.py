"""Which proposals of leaders are sent to the controller."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.cluster.events import AlterIsr, IsrOutcome
from pybroker.broker.replicas import isr_proposals
from pybroker.broker.replicas.isr_proposals import IsrProposals
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.control_plane import until

TOPIC = Uuid.random()


class NativeResults:
    """Records calls of native code with the results of its proposals."""

    def __init__(self) -> None:
        self.refusals: list[tuple[Any, ...]] = []
        self.sets: list[tuple[Any, ...]] = []

    def refused(self, *what: Any) -> None:
        self.refusals.append(what)

    def written(self, *what: Any) -> None:
        self.sets.append(what)


class FakeController:
    """A controller that writes everything."""

    def __init__(self) -> None:
        self.asked: list[AlterIsr] = []

    async def submit(self, event: AlterIsr, timeout_ms: int | None = None) -> EventAnswer[Any]:
        self.asked.append(event)
        members = tuple(broker_id for broker_id, _ in event.changes[0].isr)
        return EventAnswer([IsrOutcome(0, 1, 5, members, 8)], True)


def proposal(*members: int) -> Any:
    isr = [SimpleNamespace(broker_id=member, broker_epoch=10 + member) for member in members]
    return SimpleNamespace(topic_id=TOPIC, partition=0, leader_epoch=5, version=7, isr=isr)


async def test_who_is_about_to_stop_is_not_proposed() -> None:
    """Until the controller refuses the proposal, writes would wait for a broker that has left; a stopping controller
    does not respond for a while."""
    told, controller, leaving = NativeResults(), FakeController(), {2}
    native: Any = SimpleNamespace(isr=told)
    keeper = IsrProposals(native, controller, 1, lambda: 11, leaving=lambda: leaving)  # type: ignore[arg-type]
    keeper.proposed(proposal(1, 3, 2))
    assert (told.refusals, controller.asked) == ([(TOPIC, 0, 5, 7)], [])
    leaving.clear()
    keeper.proposed(proposal(1, 3, 2))
    await until(lambda: told.sets)
    assert told.sets == [(TOPIC, 0, 5, (1, 3, 2), 8)]
    await keeper.stop()


class RefusingController(FakeController):
    """A controller that knows none of the brokers which are to join."""

    async def submit(self, event: AlterIsr, timeout_ms: int | None = None) -> EventAnswer[Any]:
        self.asked.append(event)
        return EventAnswer([IsrOutcome(ErrorCode.INELIGIBLE_REPLICA) for _ in event.changes], True)


async def test_a_join_that_is_refused_with_each_fetch_is_said_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pybroker.broker.replicas.isr_proposals")
    told = NativeResults()
    native: Any = SimpleNamespace(isr=told)
    keeper = IsrProposals(native, RefusingController(), 1, lambda: 11)  # type: ignore[arg-type]

    async def propose(times: int) -> list[int]:
        """Return the levels of the logged lines."""
        caplog.clear()
        told.refusals.clear()
        for number in range(times):
            keeper.proposed(proposal(1, 2))
            await until(lambda number=number: len(told.refusals) > number)  # type: ignore[misc]
        return [record.levelno for record in caplog.records if "the ISR is unchanged" in record.message]

    assert await propose(3) == [logging.INFO, logging.DEBUG, logging.DEBUG]
    monkeypatch.setattr(isr_proposals, "SAID_ANEW_S", 0.0)
    assert await propose(2) == [logging.INFO, logging.INFO]
    await keeper.stop()
