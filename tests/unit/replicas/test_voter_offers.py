"""A voter waits for a change of the voters; a broker that is not a voter offers itself again and again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from pybroker.broker.cluster.controller_client import EventAnswer
from pybroker.broker.quorum.voter_membership import VoterMembership
from pybroker.broker.replicas.voter_offers import VoterOffers
from pybroker.native import Uuid
from tests.simulation.loop import SimulatedLoop

HERE = Uuid(1, 2)


class Scene:
    """A broker, and a log whose voters the test sets."""

    def __init__(self, folder: Path) -> None:
        self.voters: list[Any] = []
        self.looked = self.offered = 0
        self.membership = VoterMembership(folder, 1, HERE)
        controller: Any = self
        self.offers = VoterOffers(
            controller,
            1,
            HERE,
            (),
            status=self.status,
            broker_epoch=lambda: 7,
            membership=self.membership,
            offers=True,
        )

    def status(self) -> Any:
        self.looked += 1
        return SimpleNamespace(voters=self.voters, epoch=1, log_end=5, high_watermark=5)

    async def submit(self, event: Any, timeout_ms: int) -> EventAnswer[Any]:
        del event, timeout_ms
        self.offered += 1
        return EventAnswer(None, True)

    async def run(self) -> tuple[int, int, int, bool]:
        """Return how often the broker has offered itself in a minute, how often it has read the status and offered
        itself in the next one, as a voter, and whether it then notes its removal."""
        self.offers.start()
        await asyncio.sleep(60)
        before = self.offered
        self.voters = [SimpleNamespace(node_id=1, directory_id=HERE)]
        self.offers.voters_changed()
        await asyncio.sleep(60)
        looked, offered = self.looked - before, self.offered - before
        self.voters = []
        self.offers.voters_changed()
        await asyncio.sleep(2)
        await self.offers.stop()
        return before, looked, offered, self.membership.removed


def test_a_voter_waits_for_a_change_of_the_voters(tmp_path: Path) -> None:
    before, looked, offered, removed = SimulatedLoop(Random(1)).run_until_complete(Scene(tmp_path).run())
    assert before >= 59
    assert (looked <= 2, offered) == (True, 0)
    assert removed
