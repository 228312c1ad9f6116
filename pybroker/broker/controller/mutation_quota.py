"""Controller mutation quotas: how many partitions a client may create and delete (`controller_mutation_rate`, KIP-599).

The controller counts, so a client has one quota for all brokers. Like Kafka's controller, it counts only changes that
it would make. It does not count topics that it refuses for another reason, nor requests with `validate_only`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pybroker.broker.cluster import events as e
from pybroker.broker.controller.authorization import AuthorizedEvent
from pybroker.broker.controller.decision import rule_of
from pybroker.broker.metadata.image import ClusterImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode


class MutationUsage(Protocol):
    """The usage of the clients' mutation quotas."""

    def has_quota(self, caller: Caller) -> bool:
        """Return whether a quota applies to the client."""
        ...

    def charge(self, caller: Caller, partitions: int) -> tuple[bool, int]:
        """Count partitions, unless the quota is exceeded. Return whether they were counted, and the throttle time in
        milliseconds.
        """
        ...


ITEMS = "topics"
"""Name of the field with the items, in each of these events. Items succeed or fail independently."""


def _created_partitions(_image: ClusterImage, _topic: e.NewTopic, made: e.CreatedTopic) -> int:
    return made.num_partitions


def _added_partitions(image: ClusterImage, topic: e.NewPartitions, _: None) -> int:
    return topic.total - len(image.topics[topic.name].partitions)


def _removed_partitions(image: ClusterImage, topic_id: Uuid, _: e.DeletedTopic) -> int:
    topic = image.topic_by_id(topic_id)
    # A deletion record without a topic (stray replicas) counts as well.
    return len(image.deletions[topic_id].partitions if topic is None else topic.partitions)


COSTS: Mapping[type[e.Event[Any]], Callable[[ClusterImage, Any, Any], int]] = {
    e.CreateTopics: _created_partitions,
    e.CreatePartitions: _added_partitions,
    e.DeleteTopics: _removed_partitions,
}
"""For each type of event, a function that returns how many partitions an item creates or deletes. Arguments: the image
before the event, the item, the item's reply."""


def count_mutations(
    image: ClusterImage, granted: AuthorizedEvent, caller: Caller, mutations: MutationUsage
) -> tuple[dict[int, KafkaError], int]:
    """Return (refused items by index in the original event, throttle time in ms for the client)."""
    event = granted.event
    if getattr(event, "validate_only", False):
        return {}, 0
    cost = COSTS[type(event)]
    try:
        would_be = rule_of(event).decide(image, event).reply
    except KafkaError:
        return {}, 0  # The decision function refuses the whole event and reports the error.
    refused: dict[int, KafkaError] = {}
    throttle_time_ms = 0
    for place, item, reply in zip(granted.remaining_indexes(ITEMS), getattr(event, ITEMS), would_be, strict=True):
        if isinstance(reply, KafkaError):
            continue
        taken, wait_ms = mutations.charge(caller, max(cost(image, item, reply), 1))
        throttle_time_ms = max(throttle_time_ms, wait_ms)
        if not taken:
            refused[place] = KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
    return refused, throttle_time_ms
