"""Heartbeats of a broker in a metadata quorum carry only information that its fetches of the metadata topic lack."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat, RegisterBroker, RegisteredBroker
from pybroker.broker.quorum.fetch_reports import FetchReports
from pybroker.broker.replicas.quorum_registration import QuorumRegistration
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.simulation.loop import SimulatedLoop


class FakeController:
    """A controller that accepts everything."""

    def __init__(self) -> None:
        self.beats: list[tuple[int, int]] = []

    async def submit(self, event: Any, timeout_ms: int) -> EventAnswer[Any]:
        del timeout_ms
        if isinstance(event, BrokerHeartbeat):
            self.beats.append((event.broker_epoch, event.applied))
            return EventAnswer(None, True)
        return EventAnswer(RegisteredBroker(7, ()), True)


async def turn() -> None:
    """Let the registration do its next work."""
    for _ in range(10):
        await asyncio.sleep(0)


async def scene() -> list[list[tuple[int, int]]]:
    """Return the heartbeats after each step."""
    controller, reports = FakeController(), FetchReports()
    registration: Any = QuorumRegistration(
        controller,  # type: ignore[arg-type]  # what it needs of it
        1,
        "commit",
        lambda error: None,
        incarnation=Uuid(1, 2),
        reports=reports,
        heartbeat_s=3_600,
    )
    registration.stay((), None, "", lambda epoch: None)
    seen = []

    async def after() -> None:
        await turn()
        seen.append(controller.beats)
        controller.beats = []

    registration.registered(7)
    await after()
    registration.applied(5)
    await after()
    # A fetch carries the same information: the registration sends nothing.
    reports.received(reports.current)
    registration.applied(5)
    await after()
    registration.applied(6)
    await after()
    # The fetch that the leader answers now was sent before the change.
    registration.applied(6)
    await after()
    await registration.stop()
    return seen


def test_a_heartbeat_is_sent_only_for_what_no_fetch_has_said() -> None:
    assert asyncio.run(scene()) == [[(7, 0)], [(7, 5)], [], [(7, 6)], [(7, 6)]]


class ExpiringController(FakeController):
    """The session of the first registration expires before the broker has applied the registration."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []
        self.heard = asyncio.Event()

    async def submit(self, event: Any, timeout_ms: int) -> EventAnswer[Any]:
        if isinstance(event, RegisterBroker):
            self.epochs.append(7 + len(self.epochs))
            return EventAnswer(RegisteredBroker(self.epochs[-1], ()), True)
        if event.broker_epoch == 7:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "This broker epoch is not registered.")
        self.heard.set()
        return await super().submit(event, timeout_ms)


async def expiring() -> tuple[list[int], list[tuple[int, int]]]:
    """Return the epochs of the registrations, and the accepted heartbeats."""
    controller = ExpiringController()
    registration: Any = QuorumRegistration(
        controller,  # type: ignore[arg-type]  # what it needs of it
        1,
        "commit",
        lambda error: None,
        incarnation=Uuid(1, 2),
        reports=FetchReports(),
        heartbeat_s=0.001,
    )
    await registration.register((), None, (), topic_ids=True)
    registration.stay((), None, "", lambda epoch: None)
    async with asyncio.timeout(60):
        await controller.heard.wait()
        await turn()
    await registration.stop()
    return controller.epochs, controller.beats[:1]


def test_a_registration_that_ends_before_it_is_applied_is_repeated() -> None:
    assert asyncio.run(expiring()) == ([7, 8], [(8, 0)])


async def minute(*, fetches: bool, leads: bool) -> tuple[int, int]:
    """Return the number of heartbeats in a minute without changes, and in the next second, without fetches."""
    controller, reports = FakeController(), FetchReports()
    registration: Any = QuorumRegistration(
        controller,  # type: ignore[arg-type]  # what it needs of it
        1,
        "commit",
        lambda error: None,
        incarnation=Uuid(1, 2),
        reports=reports,
        heartbeat_s=0.5,
        leads=lambda: leads,
    )
    registration.stay((), None, "", lambda epoch: None)
    registration.registered(7)
    await asyncio.sleep(0.1)
    controller.beats = []
    for _ in range(120):
        if fetches:
            reports.received(reports.current)
        await asyncio.sleep(0.5)
    beats, controller.beats = len(controller.beats), []
    await asyncio.sleep(1)
    await registration.stop()
    return beats, len(controller.beats)


def run_minute(*, fetches: bool = False, leads: bool = False) -> tuple[int, int]:
    return SimulatedLoop(Random(1)).run_until_complete(minute(fetches=fetches, leads=leads))


def test_fetches_that_an_idle_leader_holds_replace_all_heartbeats() -> None:
    beats, after = run_minute(fetches=True)
    assert beats == 0
    assert after >= 1


def test_without_fetches_a_heartbeat_is_sent_each_interval() -> None:
    beats, _ = run_minute()
    assert 118 <= beats <= 120


def test_the_controllers_own_broker_repeats_its_heartbeat_less_often() -> None:
    beats, _ = run_minute(leads=True)
    assert 28 <= beats <= 31
