"""Large requests in pieces, their joined response, and turns of other tasks on the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker.broker.requests.loop_sharing import ELEMENTS_A_SLICE, LoopShares
from pybroker.broker.requests.request_splitting import join, outer_elements, pieces
from pybroker.protocol import messages as m


def names(count: int) -> list[str]:
    return [f"n-{number}" for number in range(count)]


def answered(request: m.OffsetFetchRequest) -> m.OffsetFetchResponse:
    """Return the response of a handler that mirrors a request of version 8."""
    return m.OffsetFetchResponse(
        groups=[
            m.OffsetFetchResponse_OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    m.OffsetFetchResponse_OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            m.OffsetFetchResponse_OffsetFetchResponsePartitions(partition_index=index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


def whole(request: Any) -> tuple[Any, int]:
    answer, count = None, 0
    for piece, depth in pieces(request):
        count += 1
        part = answered(piece)
        if answer is None:
            answer = part
        else:
            join(answer, part, depth)
    return answer, count


@pytest.mark.parametrize(
    "shape",
    [
        [],
        [[]],
        [[0]],
        [[1], [2, 3]],
        [[ELEMENTS_A_SLICE]],
        [[3 * ELEMENTS_A_SLICE + 1]],
        [[5, 4 * ELEMENTS_A_SLICE, 5], [7], [2 * ELEMENTS_A_SLICE, 2 * ELEMENTS_A_SLICE]],
        [[3]] * 2_000,
        [[1] * 3_000],
    ],
)
def test_the_answers_to_the_pieces_are_that_to_the_whole(shape: list[list[int]]) -> None:
    """`shape`: the partitions of each topic of each group."""
    request = m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequest_OffsetFetchRequestGroup(
                group_id=f"g-{place}",
                topics=[
                    m.OffsetFetchRequest_OffsetFetchRequestTopics(name=f"t-{at}", partition_indexes=list(range(count)))
                    for at, count in enumerate(topics)
                ],
            )
            for place, topics in enumerate(shape)
        ]
    )
    answer, count = whole(request)
    assert answer == answered(request)
    assert count <= 2 + 4 * sum(1 + sum(topics) for topics in shape) // ELEMENTS_A_SLICE


def test_a_piece_is_small_and_other_arrays_are_asked_for_once() -> None:
    request = m.ListGroupsRequest(states_filter=["Stable"], types_filter=names(2_500))
    parts = [piece for piece, _ in pieces(request)]
    assert [len(part.types_filter) for part in parts] == [1_000, 1_000, 500]
    assert [part.states_filter for part in parts] == [["Stable"], [], []]
    assert outer_elements(request) == 2_500


def test_what_belongs_to_one_partition_stays_together() -> None:
    made = m.AlterPartitionReassignmentsRequest_ReassignablePartition
    partitions = [made(partition_index=index, replicas=[1, 2, 3]) for index in range(600)]
    partitions[7] = made(partition_index=7, replicas=list(range(5_000)))
    topic = m.AlterPartitionReassignmentsRequest_ReassignableTopic(name="t", partitions=partitions)
    parts = [piece for piece, _ in pieces(m.AlterPartitionReassignmentsRequest(topics=[topic]), levels=2)]
    cut = [one for part in parts for topic in part.topics for one in topic.partitions]
    assert cut == partitions
    assert [len(part.topics[0].partitions) for part in parts] == [7, 1, 200, 200, 192]


def test_what_is_named_twice_is_asked_for_once() -> None:
    request = m.DescribeGroupsRequest(groups=names(1_500) * 3)
    assert sum(len(piece.groups) for piece, _ in pieces(request, once=True)) == 1_500
    topic = m.DescribeTopicHistoryRequest_HistoryTopic(name="t")
    history = m.DescribeTopicHistoryRequest(topics=[topic] * 3_000)
    assert [len(piece.topics) for piece, _ in pieces(history, once=True)] == [1]


async def test_each_iteration_of_the_loop_has_one_slice() -> None:
    """The slice is the same however many requests wait; a cancelled request takes no turn."""
    turns, order = LoopShares(), []

    async def work(name: str) -> None:
        for step in range(3):
            await turns.next()
            order.append((name, step))

    tasks = [asyncio.create_task(work(name)) for name in "abc"]
    gone = asyncio.create_task(turns.next())
    await asyncio.sleep(0)
    gone.cancel()
    iterations = 0
    while not all(task.done() for task in tasks):
        before = len(order)
        await asyncio.sleep(0)
        assert len(order) <= before + 1
        iterations += 1
    assert order == [(name, step) for step in range(3) for name in "abc"]
    assert iterations < 40


async def test_elements_are_yielded_in_order_and_others_run_in_between() -> None:
    turns, ran = LoopShares(), 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    seen = []
    async for element in turns.each(range(30)):
        end = asyncio.get_running_loop().time() + 0.002
        while asyncio.get_running_loop().time() < end:
            pass
        seen.append(element)
    task.cancel()
    assert seen == list(range(30))
    assert ran > 5
