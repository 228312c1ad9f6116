"""Replicas here that may have lost the end of their logs, and have nobody to copy it from: the controller is told how
far they go, and has the one lead that has most."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from pybroker.cluster.events import LogEndsTold
from pybroker.cluster.port import ControllerPort
from pybroker.cluster.view import ClusterView
from pybroker.errors import KafkaError
from pybroker.metadata.image import NO_LEADER
from pybroker.metadata.znodes import UNKNOWN_END
from pybroker.native import NativePartitions, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replicas.isr import PAUSE_MAX_S, PAUSE_S

log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000
BATCH_MAX = 10_000


class LogEnds:
    """Of a broker in a cluster. On the loop's thread."""

    def __init__(
        self, partitions: NativePartitions, view: ClusterView, port: ControllerPort, broker_id: int
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._port = port
        self._broker_id = broker_id
        self._broker_epoch = -1
        self._waiting: dict[tuple[Uuid, int], None] = {}
        self._work: asyncio.Task[None] | None = None

    def without_leader(self, broker_epoch: int, partitions: Iterable[tuple[Uuid, int]]) -> None:
        """That life of the broker was told that nobody leads these, which are open here."""
        self._broker_epoch = broker_epoch
        self._waiting.update(dict.fromkeys(partitions))
        if self._waiting and (self._work is None or self._work.done()):
            self._work = asyncio.create_task(self._tell(), name="log-ends")

    async def stop(self) -> None:
        """Tells nothing more."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _tell(self) -> None:
        pause = PAUSE_S
        while self._waiting:
            batch = tuple(self._waiting)[:BATCH_MAX]
            ends = tuple(end for one in batch if (end := self._asked_for(*one)) is not None)
            if ends:
                try:
                    await self._port.submit(LogEndsTold(self._broker_id, self._broker_epoch, ends), TIMEOUT_MS)
                except KafkaError as error:
                    if error.code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                        log.error("the controller does not take how far logs go here: %s", error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX_S)
                    continue
            pause = PAUSE_S
            for one in batch:
                self._waiting.pop(one, None)

    def _asked_for(self, topic_id: Uuid, index: int) -> tuple[Uuid, int, int, int] | None:
        """What is to be told of a partition; None: nobody waits for it."""
        topic = self._view.image.topic_by_id(topic_id)
        state = None if topic is None or index >= len(topic.partitions) else topic.partitions[index]
        if state is None or state.leader != NO_LEADER:
            return None
        if not any(one.broker_id == self._broker_id and one.end == UNKNOWN_END for one in state.suspect):
            return None
        offsets = self._partitions.offsets(topic_id, index)
        return None if offsets is None else (topic_id, index, offsets.last_epoch, offsets.log_end_offset)
