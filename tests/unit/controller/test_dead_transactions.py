"""Deletion records of topics keep the outcomes of their transactions. The tests call the decisions without brokers."""

from __future__ import annotations

import pytest

from pybroker.broker.cluster.events import KeepOutcome, OutcomesWritten, UndeleteTopic
from pybroker.broker.controller import dead_transactions
from pybroker.broker.controller.dead_transactions import decide_keep, decide_written
from pybroker.broker.controller.internal_events import AdvanceDeletions, FinishUndelete
from pybroker.broker.controller.topic_deletion import decide_advance
from pybroker.broker.controller.undelete import decide_finish_undelete, decide_undelete
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import LIVE, DeletionRecord, decode_deletion
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.metadata_store import Set
from pybroker.native import Uuid
from tests.unit.controller.test_decisions import cluster, created, deleted

pytestmark = pytest.mark.checklist("A31")


def ended(topic_id: Uuid, *partitions: int, producer: int = 7, commits: bool = True) -> KeepOutcome:
    return KeepOutcome(producer, 1, 3, commits, 1, tuple((topic_id, one) for one in partitions))


def dead() -> tuple[ClusterImage, Uuid]:
    image = created(cluster(1), "a", "b")
    topic_id = image.topics["a"].topic_id
    return deleted(image, topic_id), topic_id


def record(image: ClusterImage, topic_id: Uuid) -> DeletionRecord:
    return image.deletions[topic_id]


def test_it_is_stored_once_and_goes_with_what_is_written() -> None:
    image, topic_id = dead()
    for _ in range(2):
        decision = decide_keep(image, ended(topic_id, 0, 2))
        image = image.apply(decision.delta)
        assert decision.reply == ()
        (stored,) = [one for one in decision.operations if isinstance(one, Set)]
        assert decode_deletion(stored.path, stored.data) == record(image, topic_id)
    (kept,) = record(image, topic_id).outcomes
    assert (kept.producer_id, kept.committed, kept.partitions) == (7, True, (0, 2))
    image = image.apply(decide_undelete(image, UndeleteTopic(topic_id, None, "User:a", 5)).delta)
    image = image.apply(decide_keep(image, ended(topic_id, 1, producer=8)).delta)
    image = image.apply(decide_finish_undelete(image, FinishUndelete(topic_id)).delta)
    assert record(image, topic_id).state == LIVE
    image = image.apply(decide_written(image, OutcomesWritten(topic_id, (0, 1))).delta)
    assert [one.partitions for one in record(image, topic_id).outcomes] == [(2,)]
    last = decide_written(image, OutcomesWritten(topic_id, (2,)))
    assert [one.path for one in last.operations] == [znodes.deletion_path(topic_id)]
    assert topic_id not in image.apply(last.delta).deletions


def test_what_lives_gets_its_marker_itself_and_what_is_gone_for_good_needs_none() -> None:
    image, topic_id = dead()
    living = image.topics["b"].topic_id
    assert decide_keep(image, ended(living, 0)).reply == (living,)
    image = image.apply(decide_keep(image, ended(topic_id, 0)).delta)
    for event in (AdvanceDeletions(staged=(topic_id,)), AdvanceDeletions(removed=(topic_id,))):
        image = image.apply(decide_advance(image, event).delta)
    assert record(image, topic_id).outcomes == (), "a tombstone keeps none"
    for gone in (topic_id, Uuid.random()):
        decision = decide_keep(image, ended(gone, 0))
        assert (decision.reply, decision.operations) == ((), ())


def test_a_record_keeps_no_more_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_transactions, "OUTCOMES_MAX", 2)
    image, topic_id = dead()
    image = image.apply(decide_keep(image, ended(topic_id, 0, 1)).delta)
    decision = decide_keep(image, ended(topic_id, 2, producer=8))
    assert not decision.operations
    assert len(decision.warnings) == 1
