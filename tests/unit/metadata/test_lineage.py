"""What a leader epoch proves about the incarnation that a client means."""

from __future__ import annotations

import pytest

from pybroker.broker.metadata.lineage import CREATED, DELETED, UNDELETED, TopicEvent, TopicLineage


def undeleted(now: str) -> TopicLineage:
    """A topic `orders` whose deleted incarnation had epochs 0 to 5, and whose current one has epochs from 9."""
    lineage = TopicLineage((TopicEvent(CREATED, 1, "User:a", "orders"),))
    lineage = lineage.with_event(TopicEvent(DELETED, 2, "User:a", "orders")).ended(5)
    return lineage.with_event(TopicEvent(UNDELETED, 3, "User:a", now)).resumed(9)


@pytest.mark.parametrize(
    ("name", "epoch", "proves"),
    [
        pytest.param("orders", 3, True, id="its own, before the deletion"),
        pytest.param("orders", 7, False, id="another incarnation's"),
        pytest.param("orders", 9, True, id="the present"),
        pytest.param("archive", 9, True, id="the present of another name"),
        pytest.param("archive", 3, False, id="before the rename, when archive may have been another topic"),
    ],
)
def test_a_leader_epoch_proves_the_incarnation_of_its_name(name: str, epoch: int, proves: bool) -> None:
    assert undeleted(name).proves(epoch) is proves


def test_epochs_of_a_name_without_history_prove_nothing() -> None:
    assert not TopicLineage().proves(0)
    assert not TopicLineage().proves(-1)
