"""Pending replica removals: a reassignment has moved a replica away from a broker, and the broker has not confirmed the
removal.

The controller repeats StopReplica until the broker confirms that it has staged the data. It repeats the request when
the broker has a new broker epoch; a new controller repeats it as well. Until the confirmation, the topic's znode names
the broker (`TopicImage.departed`); if the topic is deleted in the meantime, its deletion record names the broker.
Otherwise the data would stay on a broker that was down during the removal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.controller.internal_events import ReplicasGone
from pybroker.broker.metadata.control_messages import StopReplicaRequest, StopReplicaResponse
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Seconds before another attempt to store a confirmation."""
AGAIN_S = 30.0
"""Seconds before another StopReplica to a broker that could not stage its data."""


class PendingRemovals:
    """The pending replica removals of one controller, on the event loop's thread."""

    def __init__(self, controller: ControllerClient, send_again: Callable[[int, Sequence[Uuid]], None]) -> None:
        self._controller = controller
        self._send_again = send_again
        self._topics: dict[Uuid, TopicImage] = {}
        """Topics with pending replica removals."""
        self._confirmed: set[tuple[Uuid, int, int, int]] = set()
        """Confirmations to store: (topic id, partition, broker, leader epoch)."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()

    def start(self, image: ClusterImage) -> None:
        """Take over the pending removals of earlier controllers. Brokers get them when they register."""
        self._track(image.topics.values())
        self._task = asyncio.create_task(self._run(), name="departures")

    async def stop(self) -> None:
        """Stop; the next controller continues with the rest."""
        for timer in self._timers:
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def observe(self, delta: ImageDelta) -> None:
        """Update the pending removals after a change of the image."""
        for removed in delta.removed:
            self._topics.pop(removed.topic_id, None)
        self._track(delta.topics)

    def pending_of(self, broker_id: int) -> list[Uuid]:
        """Return the topics for which a broker has not confirmed a replica removal."""
        return [topic_id for topic_id, topic in self._topics.items() if topic.left(broker_id)]

    def handle_answer(self, broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse) -> None:
        """Process a broker's response to StopReplica."""
        failed = {
            (topic.topic_id, partition.partition_index)
            for topic in response.topics
            for partition in topic.partition_errors
            if partition.error_code
        }
        again: set[Uuid] = set()
        for topic in request.topic_states:
            known = self._topics.get(topic.topic_id)
            left = {} if known is None else known.left(broker_id)
            for state in topic.partition_states:
                index, epoch = state.partition_index, state.leader_epoch
                # The response may belong to an earlier removal: the broker may have become a replica again and have
                # been removed again since.
                if left.get(index, epoch + 1) > epoch:
                    continue
                if response.error_code or (topic.topic_id, index) in failed:
                    again.add(topic.topic_id)
                else:
                    self._confirmed.add((topic.topic_id, index, broker_id, epoch))
                    self._wake.set()
        if again:
            self._schedule_retry(broker_id, list(again))

    def _track(self, topics: Iterable[TopicImage]) -> None:
        for topic in topics:
            if topic.departed:
                self._topics[topic.topic_id] = topic
            else:
                self._topics.pop(topic.topic_id, None)

    def _schedule_retry(self, broker_id: int, topics: list[Uuid]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            self._send_again(broker_id, topics)

        timer = asyncio.get_running_loop().call_later(AGAIN_S, run)
        self._timers.add(timer)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            due = tuple(self._confirmed)
            self._confirmed.clear()
            try:
                await self._controller.submit(ReplicasGone(due))
            except KafkaError as error:
                if error.code == ErrorCode.NOT_CONTROLLER:
                    return
                log.warning("cannot record removed replicas, retrying: %s", error)
                self._confirmed.update(due)
                await asyncio.sleep(RETRY_S)
                self._wake.set()
