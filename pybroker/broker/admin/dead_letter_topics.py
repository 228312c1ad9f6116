"""Topics that serve as dead letter queues of share groups (KIP-1191)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pybroker.broker.admin.topics import AUTO_CREATE_TIMEOUT_MS, TopicAdmin, TopicSpec
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

ENABLE = "errors.deadletterqueue.group.enable"


class DeadLetterTopics:
    """Implements `dead_letters.Queues`. `config` returns all settings of a topic."""

    def __init__(self, topics: TopicAdmin, config: Callable[[Uuid], Mapping[str, str]]) -> None:
        self._topics = topics
        self.config = config

    def accepts(self, topic_id: Uuid) -> bool:
        """Return whether the topic's settings allow dead letters (see `Queues`)."""
        return self.config(topic_id)[ENABLE] == "true"

    async def create(self, topic: str) -> None:
        """Create the topic with this cluster's defaults (see `Queues`). Do not fail if it was created meanwhile."""
        spec = TopicSpec(topic, configs={ENABLE: "true"})
        (made,) = (await self._topics.create([spec], AUTO_CREATE_TIMEOUT_MS)).each
        if isinstance(made, KafkaError) and made.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise made
