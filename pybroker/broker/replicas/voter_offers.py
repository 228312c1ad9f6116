"""A broker's offer to become a voter of the metadata log (`controller.quorum.auto.join.enable`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.quorum_events import OfferVoter, QuorumAddress
from pybroker.broker.quorum.voter_membership import VoterMembership
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.native_quorum import QuorumStatus

log = logging.getLogger(__name__)

PAUSE_S_MIN, PAUSE_S_MAX = 0.05, 1.0
"""First and longest pause, in seconds, between two offers to the same leader. Each pause is twice the previous pause.
"""
OFFER_MS = 1_000
"""Time limit of one offer, in milliseconds."""


class VoterOffers:
    """The offers of one broker; used on the loop's thread."""

    def __init__(
        self,
        controller: ControllerClient,
        broker_id: int,
        directory_id: Uuid,
        addresses: Sequence[QuorumAddress],
        *,
        status: Callable[[], QuorumStatus],
        broker_epoch: Callable[[], int],
        membership: VoterMembership,
        offers: bool,
    ) -> None:
        """`offers`: whether the broker offers itself. If it does not, it only records whether it is a voter."""
        self._controller = controller
        self._broker_id = broker_id
        self._directory_id = directory_id
        self._addresses = tuple(addresses)
        self._status = status
        self._broker_epoch = broker_epoch
        self._membership = membership
        self._offers = offers
        self._voters_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to offer."""
        self._task = asyncio.create_task(self._run(), name="voter-offers")

    def voters_changed(self) -> None:
        """Process a change of the voters in the log."""
        self._voters_changed.set()

    async def stop(self) -> None:
        """Stop offering."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        pause_s, term = PAUSE_S_MIN, -1
        while True:
            self._voters_changed.clear()
            status, epoch = self._status(), self._broker_epoch()
            votes = self._membership.observe(status)
            if status.epoch != term or epoch < 0:
                # A new leader does not know earlier offers.
                pause_s, term = PAUSE_S_MIN, status.epoch
            if self._offers and not votes and not self._membership.removed and epoch >= 0:
                event = OfferVoter(self._broker_id, epoch, self._directory_id, self._addresses)
                try:
                    await self._controller.submit(event, OFFER_MS)
                except KafkaError as error:
                    log.debug("offer to vote failed: %s", error)
            if self._membership.noted:
                await self._voters_changed.wait()
                pause_s = PAUSE_S_MIN
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
