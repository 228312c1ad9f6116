"""Moves leadership back to the preferred leaders periodically (`auto.leader.rebalance.enable`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.controller.election_decisions import BALANCED_AT_ONCE
from pybroker.broker.controller.internal_events import BalanceLeaders
from pybroker.errors import KafkaError

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Seconds between two decisions. During the pause, clients look up their new leaders."""


class LeaderBalance:
    """The leader balance of one controller, on the event loop's thread."""

    def __init__(self, controller: ControllerClient, settings: Mapping[str, Any]) -> None:
        self._controller = controller
        self._settings = settings
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Check every `leader.imbalance.check.interval.seconds`, if enabled."""
        if self._settings["auto.leader.rebalance.enable"]:
            self._task = asyncio.create_task(self._run(), name="leader-balance")

    async def stop(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause: float = self._settings["leader.imbalance.check.interval.seconds"]
        while True:
            await asyncio.sleep(pause)
            pause = self._settings["leader.imbalance.check.interval.seconds"]
            try:
                event = BalanceLeaders(self._settings["leader.imbalance.per.broker.percentage"])
                elected = await self._controller.submit(event)
            except KafkaError as error:
                log.warning("leaders cannot be balanced now, retrying at the next interval: %s", error)
                continue
            if elected.reply:
                log.info("moved leadership back to preferred leaders partitions=%d", elected.reply)
            if elected.reply == BALANCED_AT_ONCE:
                pause = PAUSE_S
