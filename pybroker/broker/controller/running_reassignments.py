"""Running reassignments. After each change that may have brought new replicas into the ISR, the controller tries to
finish their reassignment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.controller.internal_events import AdvanceReassignments
from pybroker.broker.controller.reassignment_decisions import moving_topics
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 1.0


class Reassignments:
    """The reassignments of one controller, on the event loop's thread."""

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller
        self._moving: dict[Uuid, str] = {}
        """Topic id → name, of topics with running reassignments."""
        self._due: set[Uuid] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, image: ClusterImage) -> None:
        """Continue the reassignments of earlier controllers. The new replicas may already be in sync."""
        self._notice(image.topics.values())
        self._task = asyncio.create_task(self._run(), name="reassignments")

    async def stop(self) -> None:
        """Stop; the next controller continues with the rest."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def observe(self, delta: ImageDelta) -> None:
        """Update the set of reassignments after a change of the image, then try to finish the reassignments that the
        change may have completed."""
        for removed in delta.removed:
            self._moving.pop(removed.topic_id, None)
        self._notice(delta.topics)

    def _notice(self, topics: Collection[TopicImage]) -> None:
        moving = moving_topics(topics)
        for topic in topics:
            if topic.name in moving:
                self._moving[topic.topic_id] = topic.name
                self._due.add(topic.topic_id)
                self._wake.set()
            elif self._moving.pop(topic.topic_id, None) is not None:
                log.info("reassignment completed topic=%s id=%s", topic.name, topic.topic_id)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            due = tuple(self._due & self._moving.keys())
            self._due.clear()
            if not due:
                continue
            try:
                await self._controller.submit(AdvanceReassignments(due))
            except KafkaError as error:
                if error.code == ErrorCode.NOT_CONTROLLER:
                    return
                log.warning("cannot continue reassignments now, retrying: %s", error)
                self._due.update(due)
                await asyncio.sleep(RETRY_S)
                self._wake.set()
