"""Reports of stray replicas. The controller lists the staged data of unknown topics among the deletions, so that
operators can undelete or delete it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import FoundReplicas, FoundTopic
from pybroker.broker.replicas.partition_metadata import last_epoch
from pybroker.errors import KafkaError
from pybroker.native import NativeBroker, NativeError, StagedDirectory, Uuid

log = logging.getLogger(__name__)

RETRY_S = 5.0


class StrayReports:
    """The reports of one broker; on the loop's thread."""

    def __init__(self, native: NativeBroker, controller: ControllerClient, clock: Clock, broker_id: int) -> None:
        self._native = native
        self._controller = controller
        self._clock = clock
        self._broker_id = broker_id
        self._names: dict[Uuid, str] = {}
        self._task: asyncio.Task[None] | None = None

    def report(self, topics: Iterable[tuple[Uuid, str]]) -> None:
        """Report staged topics with these names. Retry until the controller has the report."""
        self._names.update(topics)
        if self._names and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="found-replicas")

    async def stop(self) -> None:
        """Stop. The next start reports the rest."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._names:
            names = dict(self._names)
            try:
                found = await asyncio.get_running_loop().run_in_executor(None, self._look, names)
                if found:
                    await self._controller.submit(FoundReplicas(self._broker_id, found, self._clock.wall_ms()))
            except (KafkaError, NativeError) as problem:
                log.debug("retrying the report of stray replicas: %s", problem)
                await asyncio.sleep(RETRY_S)
                continue
            for topic_id in names:
                self._names.pop(topic_id, None)

    def _look(self, names: dict[Uuid, str]) -> tuple[FoundTopic, ...]:
        by_topic: dict[Uuid, list[StagedDirectory]] = {}
        for directory in self._native.log_dirs.staged():
            if directory.topic_id in names:
                by_topic.setdefault(directory.topic_id, []).append(directory)
        return tuple(
            FoundTopic(
                topic_id,
                names[topic_id],
                tuple(sorted({directory.partition for directory in directories})),
                max(last_epoch(Path(directory.path)) for directory in directories),
            )
            for topic_id, directories in by_topic.items()
        )
