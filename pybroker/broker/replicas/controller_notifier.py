"""Sends reports about local replicas to the controller, and repeats them until the controller has accepted them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import Event, ReplicasOffline
from pybroker.broker.replicas.isr_proposals import PAUSE_MAX_S, PAUSE_S, UNDECIDED
from pybroker.errors import KafkaError
from pybroker.native import Uuid

log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000

Partition = tuple[Uuid, int]
"""Topic id and partition index."""


class ControllerNotifier:
    """Sends reports of one kind about local replicas; used on the loop's thread."""

    def __init__(
        self,
        controller: ControllerClient,
        event_of: Callable[[tuple[Partition, ...]], Event[Any] | None],
        *,
        refused: str,
        batch_max: int | None = None,
    ) -> None:
        """`event_of` builds the event for some partitions just before it is sent. It returns None if the controller no
        longer needs the event. `refused` is the log message if the controller refuses the event.
        """
        self._controller = controller
        self._event_of = event_of
        self._refused = refused
        self._batch_max = batch_max
        self._waiting: dict[Partition, None] = {}
        self._work: asyncio.Task[None] | None = None

    def report(self, partitions: Iterable[Partition]) -> None:
        """Add these partitions to the report."""
        self._waiting.update(dict.fromkeys(partitions))
        if self._waiting and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._report_until_accepted(), name="telling")

    async def stop(self) -> None:
        """Stop reporting."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _report_until_accepted(self) -> None:
        pause = PAUSE_S
        while self._waiting:
            batch = tuple(self._waiting)[: self._batch_max]
            event = self._event_of(batch)
            if event is not None:
                try:
                    await self._controller.submit(event, TIMEOUT_MS)
                except KafkaError as error:
                    if error.code not in UNDECIDED:
                        log.error("%s: %s", self._refused, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX_S)
                    continue
            pause = PAUSE_S
            for record in batch:
                self._waiting.pop(record, None)


class FailedReplicas:
    """Reports partitions in failed log directories. A single broker needs no reports, because no other replica could
    take over. Used on the loop's thread."""

    def __init__(self, controller: ControllerClient, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._telling = ControllerNotifier(
            controller,
            lambda batch: ReplicasOffline(broker_id, batch, broker_epoch()),
            refused="the controller refused the report of replicas on a failed log directory",
        )

    def offline(self, partitions: Sequence[Partition]) -> None:
        """Report partitions that will stay out of service while this process runs."""
        self._telling.report(partitions)

    async def stop(self) -> None:
        """Stop reporting."""
        await self._telling.stop()
