"""A producer that a later one with the same transactional id has fenced: the error of every request, by version."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.test_transactions import Producer, add, batch, begun, completed, end, init, offsets, write

WITH_EPOCH = 3
"""The first version of InitProducerId in which a producer names its epoch."""
WITHOUT_ADDING = 12, 5
"""The first versions of Produce and TxnOffsetCommit that add their partition to the transaction (KIP-890)."""


def refusals(side: Side, name: str, me: Producer) -> None:
    """Every request of the fenced producer. InitProducerId comes last."""
    for commit in (True, False):
        for version in range(6):
            side.ask(end(name, me, commit=commit), version)
    for version in range(4):
        side.ask(add(name, me, name, 0), version)
        side.ask(add(name, me, name, 0, 9), version)
    group = f"{name}-group"
    request = m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=me[0], producer_epoch=me[1], group_id=group)
    for version in range(5):
        side.ask(request, version)
    for version in range(6):
        side.ask(offsets(name, group, me, name), version)
    for version in range(3, 13):
        for index in (0, 1):
            write(side, name, name, batch(me, 0), version, index=index)
    for version in range(WITH_EPOCH, 7):
        side.ask(init(name, me), version)


def without_transaction(side: Side, name: str) -> None:
    side.topic(name, 2)
    me = begun(side, name)
    begun(side, name)
    refusals(side, name, me)


def after_a_transaction(side: Side, name: str) -> None:
    """The leader of a partition knows the epoch."""
    side.topic(name, 2)
    me = begun(side, name)
    side.ask(add(name, me, name, 0), 3)
    write(side, name, name, batch(me, 0))
    side.ask(end(name, me), 4)
    completed(side, name, "CompleteCommit")
    begun(side, name)
    refusals(side, name, me)


def in_a_transaction(side: Side, name: str) -> None:
    """The second producer aborts the transaction of the first."""
    side.topic(name, 2)
    me = begun(side, name)
    side.ask(add(name, me, name, 0), 3)
    write(side, name, name, batch(me, 0))
    begun(side, name)
    refusals(side, name, me)


def in_a_transaction_of_version_2(side: Side, name: str) -> None:
    side.topic(name, 2)
    me = begun(side, name)
    write(side, name, name, batch(me, 0), WITHOUT_ADDING[0])
    side.ask(offsets(name, f"{name}-group", me, name), WITHOUT_ADDING[1])
    begun(side, name)
    refusals(side, name, me)


def while_the_second_is_in_a_transaction(side: Side, name: str) -> None:
    side.topic(name, 2)
    me = begun(side, name)
    second = begun(side, name)
    write(side, name, name, batch(second, 0), WITHOUT_ADDING[0])
    # At the end, InitProducerId with the previous epoch counts as a retry of the second's, and aborts.
    refusals(side, name, me)


def by_itself(side: Side, name: str) -> None:
    """An InitProducerId that names its epoch aborts the own transaction; a retry gets the same epoch."""
    side.topic(name, 2)
    me = begun(side, name)
    side.ask(add(name, me, name, 0), 3)
    write(side, name, name, batch(me, 0))
    side.ask(init(name, me), 5)
    side.ask(init(name, me), 5)


def before_the_second_has_its_epoch(side: Side, name: str) -> None:
    """The second producer has aborted the transaction of the first, and has not asked again."""
    side.topic(name, 2)
    me = begun(side, name)
    write(side, name, name, batch(me, 0), WITHOUT_ADDING[0])
    side.note("the second", side.client.call(init(name), 5))
    completed(side, name, "CompleteAbort")
    refusals(side, name, me)
    side.ask(init(name), 5)


def by_a_timeout(side: Side, name: str) -> None:
    """The coordinator has aborted the transaction, and raised the epoch."""
    side.topic(name, 2)
    answer = side.ask(init(name, timeout_ms=1), 5)
    me = answer.producer_id, answer.producer_epoch
    side.ask(add(name, me, name, 0), 3)
    completed(side, name, "CompleteAbort")
    side.ask(init(name, me), 5)


def by_a_timeout_of_version_2(side: Side, name: str) -> None:
    side.topic(name, 2)
    answer = side.ask(init(name, timeout_ms=1), 5)
    me = answer.producer_id, answer.producer_epoch
    write(side, name, name, batch(me, 0), WITHOUT_ADDING[0])
    completed(side, name, "CompleteAbort")
    refusals(side, name, me)


@pytest.mark.parametrize(
    "story",
    [
        without_transaction,
        after_a_transaction,
        in_a_transaction,
        in_a_transaction_of_version_2,
        while_the_second_is_in_a_transaction,
        by_itself,
        before_the_second_has_its_epoch,
        by_a_timeout,
        by_a_timeout_of_version_2,
    ],
)
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
