"""The offsets in each part of an archive, and the state that a folder keeps."""

from __future__ import annotations

import pytest

from pybroker.cli.archive.archive_plan import EMPTY, ArchivePart, ArchivePlan, ArchiveRequest, WrittenPartition
from pybroker.native import Uuid
from pybroker.spark.checkpoint_positions import StreamPosition, TopicPosition

ID = str(Uuid.random())
BAD_PLACES = '{"topic_id": "x", "from": null, "to": null, "topic": "t", "start": {"cluster": 5}, "end": {}}'


def _plan(first: dict[int, int], last: dict[int, int], part_rows: int) -> ArchivePlan:
    start, end = (StreamPosition("c", {ID: TopicPosition("t", places)}) for places in (first, last))
    return ArchivePlan.of(ArchiveRequest(ID, None, "latest"), "t", start, end, part_rows=part_rows, now_ms=5)


@pytest.mark.parametrize("part_rows", [1, 7, 100, 1000])
def test_every_offset_is_in_one_part(part_rows: int) -> None:
    """This holds for any number of parts. A partition that was added later, or has no records, is empty in all
    parts."""
    first, last = {0: 10, 1: 0, 2: 5}, {0: 60, 1: 33, 2: 5}
    plan = _plan(first, last, part_rows)
    assert plan.parts == max(1, -(-83 // part_rows))
    found: dict[int, list[int]] = {number: [] for number in range(4)}
    for number in range(plan.parts):
        begin, end = plan.part(number, 4)
        assert begin.keys() == end.keys() == found.keys()
        for partition in found:
            assert (begin[partition] == EMPTY) == (end[partition] == EMPTY)
            found[partition] += range(begin[partition], end[partition])
    assert found == {0: list(range(10, 60)), 1: list(range(33)), 2: [], 3: []}


def test_a_topic_without_records_has_one_part_with_nothing_in_it() -> None:
    plan = _plan({0: 4}, {0: 4}, 10)
    assert plan.parts == 1
    assert plan.part(0, 1) == ({0: EMPTY}, {0: EMPTY})


def test_a_folder_gives_back_what_it_was_given() -> None:
    plan = _plan({0: 10}, {0: 60}, 7)
    assert ArchivePlan.from_json(plan.to_json()) == plan
    part = ArchivePart(("a.parquet", "b.parquet"), {0: WrittenPartition(10, 16, 7)})
    assert ArchivePart.from_json(part.to_json()) == part
    assert WrittenPartition(10, 16, 7) + WrittenPartition(3, 4, 2) == WrittenPartition(3, 16, 9)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"topic_id": "x"}', '{"partitions": 5}', BAD_PLACES])
def test_what_is_damaged_is_no_plan_and_no_part(text: str) -> None:
    for kind in (ArchivePlan, ArchivePart):
        with pytest.raises(ValueError):  # noqa: PT011 (its text is the reader's own)
            kind.from_json(text)
