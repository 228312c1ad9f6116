"""Decisions about many elements take time in proportion to the elements, and the controller knows which they are."""

from __future__ import annotations

import random

import pytest

from pybroker.broker.cluster.events import CreateAcls, CreateTopics, DeleteAcls, DeleteTopics, NewTopic
from pybroker.broker.controller import security_decisions
from pybroker.broker.controller.event_size import MANY, has_many_elements
from pybroker.broker.controller.security_decisions import decide_create_acls, decide_delete_acls
from pybroker.broker.controller.topic_decisions import decide_create
from pybroker.broker.metadata.acl_nodes import AclBinding, AclFilter
from pybroker.broker.metadata.image import ClusterImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.unit.controller.test_decisions import cluster

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4


def with_acls(*bindings: AclBinding) -> ClusterImage:
    of = cluster(1)
    return of.apply(decide_create_acls(of, CreateAcls(bindings)).delta)


def test_filters_find_what_a_comparison_with_every_acl_finds() -> None:
    chance = random.Random(7)
    names, hosts, principals = ["", "a", "ab", "abc", "b", "*"], ["*", "h"], ["User:a", "User:b"]
    acls = {
        AclBinding(
            chance.choice([2, 3]),
            chance.choice([LITERAL, PREFIXED]),
            chance.choice(names[1:]),
            chance.choice(principals),
            chance.choice(hosts),
            chance.choice([3, 4]),
            chance.choice([2, 3]),
        )
        for _ in range(100)
    }
    image = with_acls(*sorted(acls))
    stored = [binding for node in image.acls.values() for binding in node.bindings]
    filters = tuple(
        AclFilter(
            chance.choice([ANY, 2, 3]),
            chance.choice([ANY, MATCH, LITERAL, PREFIXED]),
            chance.choice([None, *names]),
            chance.choice([None, None, *principals]),
            chance.choice([None, None, *hosts]),
            chance.choice([ANY, 3, 4]),
            chance.choice([ANY, 2, 3]),
        )
        for _ in range(2_000)
    )
    reply = decide_delete_acls(image, DeleteAcls(filters)).reply
    assert reply == [tuple(filter(which.matches, stored)) for which in filters]
    assert sum(map(bool, reply)) > 500


class CountingFilter(AclFilter):
    """Counts the ACLs with which filters are compared."""

    compared = 0

    def matches(self, binding: AclBinding) -> bool:
        CountingFilter.compared += 1
        return super().matches(binding)


def test_filters_of_one_name_are_compared_by_their_rarest_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of ACLs of one topic: each filter names the topic and a principal, or the topic and a host."""
    monkeypatch.setattr(CountingFilter, "compared", 0)
    count = 500
    image = with_acls(*(AclBinding(2, LITERAL, "t", f"User:{number}", f"h-{number}", 3, 3) for number in range(count)))
    filters = [CountingFilter(2, MATCH, "t", f"User:{number}", None, ANY, ANY) for number in range(count)]
    filters += [CountingFilter(2, LITERAL, "t", None, f"h-{number}", ANY, ANY) for number in range(count)]
    reply = decide_delete_acls(image, DeleteAcls(tuple(filters))).reply
    assert [[binding.principal for binding in found] for found in reply] == [
        [f"User:{number}"] for number in range(count)
    ] * 2
    assert CountingFilter.compared == len(filters)


def test_filters_that_match_too_much_together_remove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_decisions, "MATCHES_MAX", 5)
    image = with_acls(*(AclBinding(2, LITERAL, f"t-{number}", "User:a", "*", 3, 3) for number in range(6)))
    everything = AclFilter(ANY, ANY, None, None, None, ANY, ANY)
    assert [len(found) for found in decide_delete_acls(image, DeleteAcls((everything,))).reply] == [6]
    with pytest.raises(KafkaError) as refused:
        decide_delete_acls(image, DeleteAcls((everything, everything)))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_new_topics_of_one_request_have_different_ids() -> None:
    seven, eight = (Uuid.from_bytes(bytes(15) + bytes([number])) for number in (7, 8))
    drawn = iter([seven, seven, seven, eight])
    topics = tuple(NewTopic(name, 1, 1, None, {}) for name in ("a", "b"))
    event = CreateTopics(topics, False, 0, 1_000)
    made = decide_create(cluster(1), event, lambda: next(drawn)).delta.topics
    assert [topic.topic_id for topic in made] == [seven, eight]


def test_elements_of_events() -> None:
    ids = tuple(Uuid.random() for _ in range(MANY))
    for count, many in ((MANY - 1, False), (MANY, True)):
        assert has_many_elements(DeleteTopics(ids[:count], "User:a", 1_000, 0)) is many
    partitions = NewTopic("a", 2 * MANY, 1, None, {})
    assert has_many_elements(CreateTopics((partitions,), False, 0, 1_000))
