"""Undelete, purge and truncate topics. Independent of protocol versions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pybroker.broker.admin.topic_log import log_purged, log_truncated
from pybroker.broker.admin.topic_names import check_new_name
from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import (
    PurgedTopic,
    PurgeTopics,
    TruncatedTopic,
    TruncateTopics,
    Truncation,
    UndeletedTopic,
    UndeleteTopic,
)
from pybroker.broker.cluster.lookup import living_topic, topic_or_deletion, unknown_id
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.metadata.image import TopicImage
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Restore(msgspec.Struct, frozen=True):
    """A topic to undelete."""

    topic_id: Uuid
    new_name: str | None


class Truncate(msgspec.Struct, frozen=True):
    """A topic to truncate, by name or id."""

    which: str | Uuid
    keep_offsets: bool


class LineageAdmin:
    """The undelete, purge and truncate requests."""

    def __init__(self, view: ClusterView, controller: ControllerClient, config: BrokerConfig, clock: Clock) -> None:
        self._view = view
        self._controller = controller
        self._config = config
        self._clock = clock

    def topic(self, name: str | None, topic_id: Uuid) -> TopicImage | DeletionRecord | None:
        """Return the topic of a request, live or deleted."""
        return topic_or_deletion(self._view.image, name, topic_id)

    def unknown(self, topic_id: Uuid, may_see: Callable[[str], bool]) -> KafkaError:
        """Return the error for an id that no live topic has. `may_see`: whether the client may see a topic's name."""
        return unknown_id(self._view.image, topic_id, may_see)

    async def know(self, which: Sequence[str | Uuid], timeout_ms: int) -> None:
        """Wait until this broker has applied all earlier decisions of the controller. Call this before a name or id is
        refused as unknown: another broker may have just created or deleted the topic."""
        image = self._view.image
        if not all(
            asked in image.topics if isinstance(asked, str) else asked in image.names or asked in image.deletions
            for asked in which
        ):
            await self._controller.catch_up(timeout_ms)

    # --- undelete -----------------------------------------------------------------------------------------------------

    async def undelete(
        self, topics: Sequence[Restore], caller: Caller, timeout_ms: int
    ) -> list[UndeletedTopic | KafkaError]:
        """Undelete topics and return one result each, in order. On success the topic is in service under its old id."""
        results = [self._undelete(topic, caller, timeout_ms) for topic in topics]
        return list(await asyncio.gather(*results))

    async def _undelete(self, one: Restore, caller: Caller, timeout_ms: int) -> UndeletedTopic | KafkaError:
        try:
            if one.new_name is not None:
                check_new_name(one.new_name)
            event = UndeleteTopic(one.topic_id, one.new_name, caller.principal, self._clock.wall_ms())
            answer = await self._controller.submit(event, timeout_ms, caller=caller)
        except KafkaError as error:
            return error
        if not answer.is_complete:
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "The undelete is still in progress. `pybroker topics deletions` shows its state.",
            )
        if isinstance(answer.reply, UndeletedTopic):
            log.info("topic undeleted by=%r name=%s id=%s", caller.principal, answer.reply.name, answer.reply.topic_id)
        return answer.reply

    # --- purge --------------------------------------------------------------------------------------------------------

    async def purge(
        self, topics: Sequence[Uuid], delay_ms: int, caller: Caller, timeout_ms: int
    ) -> list[PurgedTopic | KafkaError]:
        """Purge deleted topics. Return one result each, in order. After success, brokers remove the data at once or
        after the shorter delay. Brokers that are down remove it when they are back.
        """
        if not self._config["delete.topic.enable"]:
            disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
            return [disabled] * len(topics)
        if not topics:
            return []
        event = PurgeTopics(tuple(topics), caller.principal, self._clock.wall_ms(), delay_ms)
        answer = await self._controller.submit(event, timeout_ms, caller=caller)
        done = [reply for reply in answer.reply if isinstance(reply, PurgedTopic)]
        log_purged(event.purged_by, done, delay_ms)
        return answer.reply

    # --- truncate -----------------------------------------------------------------------------------------------------

    async def truncate(
        self, topics: Sequence[Truncate], caller: Caller, timeout_ms: int
    ) -> list[TruncatedTopic | KafkaError]:
        """Truncate topics and return one result each, in order. On success the new incarnation accepts records."""
        if not self._config["delete.topic.enable"]:
            disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
            return [disabled] * len(topics)
        found: dict[int, TopicImage] = {}
        named: set[Uuid] = set()
        results: list[TruncatedTopic | KafkaError | None] = []
        for slot, truncation in enumerate(topics):
            try:
                topic = living_topic(self._view.image, truncation.which)
            except KafkaError as error:
                results.append(error)
                continue
            if topic.topic_id in named:
                results.append(KafkaError(ErrorCode.INVALID_REQUEST, "The request names this topic more than once."))
                continue
            named.add(topic.topic_id)
            found[slot] = topic
            results.append(None)
        if found:
            event = self._truncation(topics, found, caller.principal)
            answer = await self._controller.submit(event, timeout_ms, caller=caller)
            done = [reply for reply in answer.reply if isinstance(reply, TruncatedTopic)]
            log_truncated(event.truncated_by, done, event.now_ms + event.delay_ms)
            late = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The topic is truncated, but not yet in service after the timeout."
            )
            for slot, reply in zip(found, answer.reply, strict=True):
                results[slot] = late if isinstance(reply, TruncatedTopic) and not answer.is_complete else reply
        return [result for result in results if result is not None]

    def _truncation(
        self, topics: Sequence[Truncate], found: Mapping[int, TopicImage], truncated_by: str
    ) -> TruncateTopics:
        return TruncateTopics(
            tuple(Truncation(topic.topic_id, topics[slot].keep_offsets) for slot, topic in found.items()),
            truncated_by,
            self._clock.wall_ms(),
            self._config["delete.topic.delay.ms"],
        )
