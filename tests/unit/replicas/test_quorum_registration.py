"""Heartbeats of a broker in a metadata quorum carry only information that its fetches of the metadata topic lack."""

from __future__ import annotations

import asyncio
from typing import Any

from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat, RegisteredBroker
from pybroker.broker.quorum.fetch_reports import FetchReports
from pybroker.broker.replicas.quorum_registration import QuorumRegistration
from pybroker.native import Uuid


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
