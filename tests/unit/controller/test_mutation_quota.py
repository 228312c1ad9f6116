"""`controller_mutation_rate` counts an intended change once, before a topic is fenced."""

from __future__ import annotations

from typing import Any

from pybroker.broker.cluster import events as e
from pybroker.broker.controller.authorization import RULES, AuthorizedEvent
from pybroker.broker.controller.mutation_quota import COSTS, ITEMS, count_mutations
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster, created

CALLER = Caller("User:a", "127.0.0.1", "app")
DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")


class Bucket:
    """A quota that allows this many partitions and refuses the next one."""

    def __init__(self, partitions: int) -> None:
        self.left = partitions
        self.taken: list[int] = []

    def has_quota(self, caller: Caller) -> bool:
        return caller == CALLER

    def charge(self, caller: Caller, partitions: int) -> tuple[bool, int]:
        assert caller == CALLER
        if self.left < 0:
            return False, 1_000
        self.left -= partitions
        self.taken.append(partitions)
        return True, 0


def new(name: str, partitions: int) -> e.NewTopic:
    return e.NewTopic(name, partitions, 1, None, {})


def create(*topics: e.NewTopic, validate_only: bool = False) -> e.CreateTopics:
    return e.CreateTopics(topics, validate_only, 0, 0)


def counted(image: Any, granted: AuthorizedEvent, bucket: Bucket) -> tuple[dict[int, int], int]:
    refused, wait_ms = count_mutations(image, granted, CALLER, bucket)
    return {place: error.code for place, error in refused.items()}, wait_ms


def test_what_would_be_done_is_counted_in_the_order_of_the_request() -> None:
    image = created(cluster(1), "there")
    bucket = Bucket(4)
    event = create(new("there", 9), new("a", 3), new("b", 2), new("c", 1))
    assert counted(image, AuthorizedEvent(event), bucket) == ({3: ErrorCode.THROTTLING_QUOTA_EXCEEDED}, 1_000)
    assert bucket.taken == [3, 2], "what is begun is done whole, and owed"


def test_a_trial_costs_nothing() -> None:
    bucket = Bucket(-1)
    assert counted(cluster(1), AuthorizedEvent(create(new("a", 3), validate_only=True)), bucket) == ({}, 0)


def test_partitions_that_are_added_and_removed_count() -> None:
    image = created(cluster(1), "there")
    topic = image.topics["there"]
    had = len(topic.partitions)
    bucket = Bucket(100)
    grown = (e.NewPartitions("there", had + 5, None), e.NewPartitions("missing", 9, None))
    assert counted(image, AuthorizedEvent(e.CreatePartitions(grown, False, 0)), bucket) == ({}, 0)
    deleted = e.DeleteTopics((topic.topic_id, Uuid.random()), "User:a", 0, 0)
    assert counted(image, AuthorizedEvent(deleted), bucket) == ({}, 0)
    assert bucket.taken == [5, had]


def test_places_are_those_of_the_request() -> None:
    """Indexes are those in the original request, although items that the client is not authorized for have been
    removed."""
    granted = AuthorizedEvent(create(new("b", 1), new("c", 1)), {0: DENIED})
    refused, _ = count_mutations(cluster(1), granted, CALLER, Bucket(0))
    assert list(refused) == [2]
    left = granted.without(ITEMS, refused)
    assert [one.name for one in left.event.topics] == ["b"]  # type: ignore[attr-defined]
    made = e.CreatedTopic("b", Uuid.random(), 1, 1, {})
    assert left.complete_reply([made]) == [DENIED, made, refused[2]]


def test_items_have_the_same_field_for_rights_and_quotas() -> None:
    assert all(RULES[kind].items == ITEMS for kind in COSTS)
