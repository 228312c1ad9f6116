"""Stray replicas of unknown topics are recorded, and are restored or deleted only by a command."""

from __future__ import annotations

import pytest

from pybroker.broker.cluster.events import (
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    FoundReplicas,
    FoundTopic,
    NewTopic,
    UndeletedTopic,
    UndeleteTopic,
)
from pybroker.broker.controller.internal_events import FinishUndelete
from pybroker.broker.controller.topic_decisions import decide_create
from pybroker.broker.controller.topic_deletion import decide_delete, decide_found
from pybroker.broker.controller.undelete import decide_finish_undelete, decide_undelete
from pybroker.broker.metadata.deletion_records import DELETING, FOUND
from pybroker.broker.metadata.image import ClusterImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from tests.unit.controller.test_large_topics import Nodelike, after, same_as_loaded

ID = Uuid.random()
pytestmark = pytest.mark.checklist("R30", "X38")


def found(store: Nodelike, *by: tuple[int, tuple[int, ...]], name: str = "lost") -> ClusterImage:
    image = store.load(1)
    for broker_id, partitions in by:
        event = FoundReplicas(broker_id, (FoundTopic(ID, name, partitions, 4),), 7)
        image = after(store, image, decide_found(image, event))
        assert decide_found(image, event).operations == (), "told again"
    same_as_loaded(store, image)
    return image


def test_who_has_what_is_noted_and_comes_back() -> None:
    store = Nodelike()
    image = found(store, (1, (0, 1)), (3, (1,)))
    assert image.deletions[ID].partitions == {0: (1,), 1: (1, 3)}
    assert store.load(2).deletions[ID].state == FOUND
    image = after(store, image, decide_undelete(image, UndeleteTopic(ID, None, "u", 8)))
    failed = after(store.copy(), image, decide_finish_undelete(image, FinishUndelete(ID, "a disk")))
    assert failed.deletions[ID].state == FOUND, "what was not deleted is not deleted by that"
    finish = decide_finish_undelete(image, FinishUndelete(ID, None, {0: (1,), 1: (3,)}))
    assert finish.reply == UndeletedTopic("lost", ID)
    image = after(store, image, finish)
    same_as_loaded(store, image)
    assert [(one.leader, one.isr, one.leader_epoch) for one in image.topics["lost"].partitions] == [
        (1, (1,), 5),
        (3, (3,), 5),
    ]


@pytest.mark.parametrize(
    ("partitions", "name", "new_name", "code"), [((1,), "lost", None, 56), ((0,), "", None, 42), ((0,), "", "x", 0)]
)
def test_what_cannot_come_back(partitions: tuple[int, ...], name: str, new_name: str | None, code: int) -> None:
    image = found(Nodelike(), (1, partitions), name=name)
    reply = decide_undelete(image, UndeleteTopic(ID, new_name, "u", 8)).reply
    assert (reply.code if isinstance(reply, KafkaError) else 0) == code


def test_it_is_deleted_by_order() -> None:
    store = Nodelike()
    image = found(store, (2, (0,)))
    decision = decide_delete(image, DeleteTopics((ID,), "u", 9, 100))
    assert decision.reply == [DeletedTopic("lost", ID)]
    image = after(store, image, decision)
    record = store.load(2).deletions[ID]
    assert (record.state, record.deleted_by, record.remove_after_ms, record.unconfirmed) == (DELETING, "u", 109, {2})


def test_what_is_known_is_not_found() -> None:
    store = Nodelike()
    image = store.load(1)
    create = CreateTopics((NewTopic("live", 1, 1, None, {}),), False, 0, 1)
    image = after(store, image, decide_create(image, create))
    (live,) = image.names
    event = FoundReplicas(1, (FoundTopic(live, "live", (0,), 4),), 7)
    assert decide_found(image, event).operations == ()
    image = after(store, image, decide_delete(image, DeleteTopics((live,), "u", 9, 100)))
    assert decide_found(image, event).operations == ()
