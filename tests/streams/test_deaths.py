"""The broker dies at each record that a streams group (KIP-1071) writes: afterwards the group has the state before or
after the record, never one in between, and a repeated request gets the same response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import NEVER_MS, ask
from tests.groups.kit import create_topic, unique
from tests.streams.dies_writing import OF_STREAMS
from tests.streams.kit import QUICK
from tests.streams.member import GOES_AWAY, StreamsMember, picture, settle, subtopology
from tests.support.dying_broker import DyingBroker
from tests.wire.client import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DyingBroker]:
    settings = {
        **QUICK,
        "offsets.topic.num.partitions": "1",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.session.timeout.ms": str(NEVER_MS),
        "group.streams.max.session.timeout.ms": str(NEVER_MS),
    }
    broker = DyingBroker("tests.streams.dies_writing", tmp_path_factory.mktemp("deaths"), settings)
    broker.start()
    with WireClient(broker.port) as client:
        # FindCoordinator creates the offsets topic.
        client.call(m.FindCoordinatorRequest(coordinator_keys=["any"]), 4)
    yield broker
    broker.kill()


class Step(NamedTuple):
    """An action that makes the group write a record; it can be repeated."""

    record: str
    act: Callable[[], object]
    behind: Callable[[], object] = lambda: None
    """A further action after it, which runs without a fault."""


def story(port: Callable[[], int], group: str, topic: str) -> list[Step]:
    """The life of a group, with every kind of record that it can write."""
    parts = [subtopology("0", sources=(topic,))]
    a, b = (StreamsMember(port, group, name, parts) for name in "ab")
    first, second = (
        StreamsMember(port, group, name, parts, process_id="static", instance_id="static")
        for name in ("first", "second")
    )

    def told_half() -> None:
        a.obey()
        a.beat()

    def commits() -> None:
        (partition, *_) = b.owned["active"]["0"]
        assert b.commit(topic, partition, 7) == 0

    def delete() -> None:
        request = m.DeleteGroupsRequest(groups_names=[group])
        answer = ask(port, request, 2, lambda answer: int(answer.results[0].error_code))
        assert answer.results[0].error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND)

    return [
        Step("TOPOLOGY", a.beat, a.obey),
        Step("TARGET", b.beat),
        Step("CURRENT", a.beat),  # the member has to release the tasks
        Step("CURRENT", told_half),  # the member has released the tasks
        Step("CURRENT", b.beat, partial(settle, a, b)),  # the other member gets the released tasks
        Step("OFFSET", commits),
        Step("MEMBER", first.beat, partial(settle, a, b, first)),
        Step("CURRENT", partial(first.leave, GOES_AWAY)),
        Step("MEMBER gone", second.beat, partial(settle, a, b, second)),
        Step("TARGET gone", b.leave, partial(settle, a, second)),
        Step("TARGET_EPOCH", second.leave, partial(settle, a)),
        Step("CURRENT gone", a.leave),
        Step("OFFSET gone", delete),
    ]


KINDS = {*OF_STREAMS.values(), "OFFSET", "MEMBER gone", "TARGET gone", "CURRENT gone", "OFFSET gone"} - {"GROUP"}
"""The tested records. GROUP is missing: the group's epoch is written together with each of them."""


def test_the_broker_dies_at_each_record(broker: DyingBroker) -> None:
    topic = create_topic(broker.bootstrap, 4)
    stories = {moment: play(broker, topic, moment) for moment in ("", "before", "after")}
    # Whenever the broker died, the result equals that of a run without its death.
    assert stories["before"] == stories["after"] == stories[""]


def play(broker: DyingBroker, topic: str, moment: str) -> list[dict[str, object]]:
    """Run the steps of a group, and let the broker die in each of them; return the group's state after each step."""
    group = unique("group")

    def port() -> int:
        return broker.port

    def seen() -> dict[str, object]:
        shown = picture(port, group)
        # The message contains the group's name.
        shown.pop("message", None)
        return shown

    steps = story(port, group, topic)
    assert {step.record for step in steps} == KINDS
    pictures: list[dict[str, object]] = []
    for step in steps:
        before = seen()
        if moment:
            broker.where.write_text(f"{step.record} {moment}")
            with pytest.raises(OSError):  # noqa: PT011 (the connection ends, however it shows)
                step.act()
            broker.comes_back()
            came_back = seen()
        step.act()
        now = seen()
        assert now != before, step
        if moment:
            assert came_back == (before if moment == "before" else now), step
        step.behind()
        pictures += [now, seen()]
    return pictures
