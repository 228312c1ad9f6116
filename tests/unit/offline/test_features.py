"""Levels of features that `pybroker adopt` takes over from Apache Kafka."""

from __future__ import annotations

from pybroker.broker.metadata.feature_levels import HIGHEST
from pybroker.broker.offline.adopt.adoption_plan import features_of


def test_levels_are_kept_as_far_as_there_are_such_here() -> None:
    notes: list[str] = []
    finalized = {"group.version": 0, "share.version": 9, "transaction.version": 1, "metadata.version": 29, "gone": 0}
    assert features_of(finalized, notes) == {"group.version": 0, "share.version": 2, "transaction.version": 1}
    assert notes == [
        "the feature metadata.version at level 29 is not adopted: this broker does not have it",
        "the feature share.version is at level 9 in Apache Kafka and at 2, the highest of this broker, here",
        "the feature streams.version was not finalized in Apache Kafka; here it is at level 1",
    ]


def test_nothing_is_noted_of_what_is_the_same() -> None:
    notes: list[str] = []
    assert features_of(HIGHEST, notes) == HIGHEST
    assert notes == []
