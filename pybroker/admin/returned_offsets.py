"""Groups get the offsets back that they had committed for a topic that lives again, or whose successor goes on with
them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pybroker.cluster.events import OffsetsRestored
from pybroker.cluster.port import ControllerPort
from pybroker.cluster.view import ClusterView
from pybroker.errors import KafkaError
from pybroker.metadata.deletion_records import DeletionRecord
from pybroker.metadata.image import TopicImage
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 5.0
"""Between two attempts to give groups their offsets back."""

RestoreOffsets = Callable[[Uuid, str, Sequence[Mapping[str, Any]]], Awaitable[ErrorCode]]
"""Writes the offsets of a deletion record back for an incarnation and its name. The groups see them when it returns;
they are stored when the result has come."""


class ReturnedOffsets:
    """Takes what deletion records keep to the groups, and tells the controller when it is stored there."""

    def __init__(self, view: ClusterView, port: ControllerPort, restore_offsets: RestoreOffsets) -> None:
        self._view = view
        self._port = port
        self._restore_offsets = restore_offsets
        self._restoring: dict[Uuid, asyncio.Task[None]] = {}
        self._started = False

    @property
    def pending(self) -> bool:
        """Whether groups still have to get offsets back."""
        return any(record.offsets_for is not None for record in self._view.image.deletions.values())

    def start(self) -> None:
        """Called before clients are served, once the groups are loaded: finishes what was under way when the broker
        stopped.
        """
        self._started = True
        due = [record for record in self._view.image.deletions.values() if record.offsets_for is not None]
        self.topics_shown([record.offsets_for for record in due if record.offsets_for is not None])

    async def stop(self) -> None:
        """Ends the work under way; what is not stored goes on after the next start."""
        for task in self._restoring.values():
            task.cancel()
        await asyncio.gather(*self._restoring.values(), return_exceptions=True)

    def topics_shown(self, topics: Sequence[Uuid]) -> None:
        """When topics become visible: who lives again gets the offsets of its groups back in the same turn of
        the loop, so that no group can look in between."""
        if not self._started:
            return
        shown = frozenset(topics)
        for record in self._view.image.deletions.values():
            target = record.offsets_for
            if target in shown and target is not None and record.topic_id not in self._restoring:
                topic = self._view.image.topic_by_id(target)
                if topic is not None:
                    task = asyncio.create_task(self._give_back(record, topic, self._attempt(record, topic)))
                    self._restoring[record.topic_id] = task
                    task.add_done_callback(_report)

    def _attempt(self, record: DeletionRecord, topic: TopicImage) -> Awaitable[ErrorCode] | ErrorCode:
        try:
            return self._restore_offsets(topic.topic_id, topic.name, record.offsets)
        except KafkaError as error:
            return ErrorCode(error.code)

    async def _give_back(
        self, record: DeletionRecord, topic: TopicImage, attempt: Awaitable[ErrorCode] | ErrorCode
    ) -> None:
        try:
            while True:
                code = attempt if isinstance(attempt, ErrorCode) else await attempt
                if code is ErrorCode.NONE:
                    await self._port.submit(OffsetsRestored(record.topic_id))
                    return
                log.warning("offsets for topic %s are not stored yet: %s", topic.name, code.name)
                await asyncio.sleep(RETRY_S)
                if self._view.image.topic_by_id(topic.topic_id) is None:
                    return
                attempt = self._attempt(record, topic)
        except KafkaError as error:
            log.warning("offsets for topic %s are given back again after the next start: %s", topic.name, error)
        finally:
            self._restoring.pop(record.topic_id, None)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("giving offsets back failed: this is a bug in pybroker", exc_info=task.exception())
