"""Plans, positions and the comparison with checkpoints: pure decisions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition
from pybroker.spark.cluster_requests import SparkTopic
from pybroker.spark.fencing import Rules, check_cluster
from pybroker.spark.offset_ranges import OffsetRange, capped, lag_of, limited, split
from pybroker.spark.source_errors import DataLossError, TopicChangedError

OLD, NEW = "A" * 21 + "Q", "B" * 21 + "Q"


def position(topic_id: str = OLD, **offsets: int) -> StreamPosition:
    return StreamPosition("c", {topic_id: TopicPosition("t", {int(key[1:]): at for key, at in offsets.items()})})


def _range(partition: int, start: int, size: int) -> OffsetRange:
    return OffsetRange(OLD, "t", partition, start, start + size)


ranges = st.lists(st.builds(_range, st.integers(0, 9), st.integers(0, 99), st.integers(0, 999)), max_size=6)


@given(ranges, st.integers(0, 20), st.integers(0, 300))
def test_a_split_covers_every_offset_once(given_ranges: list[OffsetRange], least: int, most: int) -> None:
    """This holds for any minPartitions and maxRecordsPerPartition."""
    cut = split(given_ranges, least, most)
    assert all(each.size > 0 for each in cut)
    assert not most or all(each.size <= most for each in cut)
    assert sum(each.size for each in cut) == sum(each.size for each in given_ranges)
    for whole in given_ranges:
        parts = [each for each in cut if each.partition == whole.partition and whole.start <= each.start < whole.end]
        assert whole.size == 0 or parts


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), min_size=1, max_size=8), st.integers(1, 2000))
def test_a_limited_batch_moves_every_partition_that_has_records(places: list[tuple[int, int]], rows_max: int) -> None:
    """Every partition makes progress, no range exceeds its end, and the limit holds except for one record a partition.
    """
    start = position(OLD, **{f"p{number}": at for number, (at, _) in enumerate(places)})
    latest = position(OLD, **{f"p{number}": at + size for number, (at, size) in enumerate(places)})
    end = limited(start, latest, rows_max)
    for number, (at, size) in enumerate(places):
        reached = end.get(OLD, number)
        assert reached is not None
        assert at + min(size, 1) <= reached <= at + size
    assert lag_of(start, end) <= rows_max + len(places)


def test_a_position_survives_its_json() -> None:
    """Partitions are in order, so equal positions have equal texts."""
    made = position(p10=5, p2=7)
    assert StreamPosition.from_json(made.to_json()) == made
    assert list(made.to_json()["topics"][OLD]["p"]) == ["2", "10"]


@pytest.mark.parametrize(
    "damaged",
    [
        {"t": {"0": 5}},
        {"cluster": "c", "topics": {"no id": {"name": "t", "p": {"0": 5}}}},
        {"cluster": "c", "topics": {OLD: {"name": "t", "p": {"0": 5.5}}}},
        {"cluster": "c", "topics": {OLD: {"name": "t", "p": {"0": -1}}}},
        {"cluster": "c", "topics": {OLD: {"name": "t", "p": {"-1": 5}}}},
        {"cluster": "c", "topics": {OLD: {"name": None, "p": {"0": 5}}}},
        {"cluster": None, "topics": {}},
        {"cluster": "c", "topics": []},
        [],
    ],
)
def test_a_checkpoint_that_is_not_ours_or_damaged_is_refused(damaged: Any) -> None:
    """The error shows the content."""
    with pytest.raises(TopicChangedError, match=re.escape(f"contains no offsets of format('pybroker'): {damaged}")):
        StreamPosition.from_json(damaged)


def test_a_cap_keeps_what_the_target_has() -> None:
    """New partitions wait for the next run of an `availableNow` query."""
    assert capped(position(p0=5, p1=9, p2=3), position(p0=4, p1=10)) == position(p0=4, p1=9)


def rules(policy: str = "fail", *, fail: bool = True, first: int = 0, last: int = 800, topic_id: str = OLD) -> Rules:
    return Rules(policy, fail, {(topic_id, 0): first}, {(topic_id, 0): last})


@pytest.mark.checklist("R22", "U8")
def test_a_checkpoint_of_another_cluster_is_refused() -> None:
    """This holds with every policy."""
    with pytest.raises(TopicChangedError, match="belongs to cluster c, but the brokers are of cluster d"):
        check_cluster(position(p0=5), "d")


def test_an_unchanged_topic_goes_on_where_it_was() -> None:
    """Including a topic that was deleted and undeleted: its id is the same."""
    here = [SparkTopic(OLD, "t", (1,))]
    assert rules().carried_over(position(p0=500), here) == position(p0=500)


@pytest.mark.checklist("U8")
@pytest.mark.parametrize("fail", [True, False])
def test_a_re_created_topic_is_refused_by_default(fail: bool) -> None:
    """`failOnDataLoss=false` does not make the records of another topic valid for the checkpoint."""
    here = [SparkTopic(NEW, "t", (1,))]
    with pytest.raises(TopicChangedError, match=f"re-created: the checkpoint belongs to id {OLD}, the topic has {NEW}"):
        rules(fail=fail, topic_id=NEW).carried_over(position(p0=500), here)


def test_a_re_created_topic_is_read_from_its_start_if_asked() -> None:
    """It is read under its new id."""
    here = [SparkTopic(NEW, "t", (1,))]
    assert rules("earliest", topic_id=NEW, first=3).carried_over(position(p0=500), here) == position(NEW, p0=3)


def test_a_re_created_topic_is_continued_only_with_continuity() -> None:
    """The new topic must hold the checkpoint's offset."""
    here = [SparkTopic(NEW, "t", (1,))]
    carried = rules("continue", topic_id=NEW).carried_over(position(p0=500), here)
    assert carried == position(NEW, p0=500)
    with pytest.raises(TopicChangedError, match="partition 0 contains 0 to 300, the checkpoint is at 500"):
        rules("continue", topic_id=NEW, last=300).carried_over(position(p0=500), here)
    with pytest.raises(TopicChangedError, match="partition 1 contains nothing"):
        rules("continue", topic_id=NEW).carried_over(position(p0=5, p1=5), here)


def test_a_deleted_topic_says_how_it_comes_back() -> None:
    """With `failOnDataLoss=false` the other topics continue, and the position is kept in case the topic is undeleted.
    """
    with pytest.raises(TopicChangedError, match=f"pybroker topics undelete {OLD}"):
        rules().carried_over(position(p0=5), [])
    assert rules(fail=False).carried_over(position(p0=5), []) == position(p0=5)


def test_a_truncated_topic_is_refused_unless_it_may_start_over() -> None:
    """Its end is below the checkpoint's offset."""
    here = [SparkTopic(OLD, "t", (1,))]
    for policy in ("fail", "continue"):
        with pytest.raises(TopicChangedError, match="was truncated: partition 0 ends at 100"):
            rules(policy, last=100, fail=False).carried_over(position(p0=500), here)
    assert rules("earliest", last=100, first=2).carried_over(position(p0=500), here) == position(p0=2)


def test_records_that_aged_out_are_an_error_or_skipped() -> None:
    """Only `failOnDataLoss` decides this."""
    here = [SparkTopic(OLD, "t", (1,))]
    with pytest.raises(DataLossError, match=re.escape("offsets 500 to 600 were removed")):
        rules(first=600).carried_over(position(p0=500), here)
    assert rules(first=600, fail=False).carried_over(position(p0=500), here) == position(p0=600)
