"""Replicas here whose log directory has failed: the controller is told, so that others lead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from pybroker.cluster.events import ReplicasOffline
from pybroker.cluster.port import ControllerPort
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.replicas.isr import PAUSE_MAX_S, PAUSE_S, UNDECIDED

log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000


class FailedReplicas:
    """Of a broker in a cluster; alone, there is nobody who could lead instead. On the loop's thread."""

    def __init__(self, port: ControllerPort, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._port = port
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[tuple[Uuid, int], None] = {}
        self._work: asyncio.Task[None] | None = None

    def offline(self, partitions: Sequence[tuple[Uuid, int]]) -> None:
        """They are served no more, for as long as this process lives."""
        self._waiting.update(dict.fromkeys(partitions))
        if self._waiting and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._tell(), name="failed-replicas")

    async def stop(self) -> None:
        """Tells nothing more."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _tell(self) -> None:
        pause = PAUSE_S
        while self._waiting:
            told = tuple(self._waiting)
            try:
                await self._port.submit(ReplicasOffline(self._broker_id, told, self._broker_epoch()), TIMEOUT_MS)
            except KafkaError as error:
                if error.code not in UNDECIDED:
                    log.error("the controller does not let others lead what failed here: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_S)
                continue
            pause = PAUSE_S
            for one in told:
                self._waiting.pop(one, None)
