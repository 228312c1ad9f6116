"""The broker dies at each record that a group of the consumer protocol (KIP-848) writes: afterwards the group has the
state before or after the record, never one in between, and a repeated request gets the same response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import GOES_AWAY, NEVER_MS, ConsumerProtocolMember, ask, picture, settle
from tests.groups.dies_writing import NAMES
from tests.groups.kit import WAIT_S, Member, create_topic, fill, kind_of, shared_out, unique, until
from tests.support.dying_broker import DyingBroker
from tests.wire.client import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DyingBroker]:
    settings = {
        "offsets.topic.num.partitions": "1",
        "group.consumer.session.timeout.ms": str(NEVER_MS),
        "group.consumer.max.session.timeout.ms": str(NEVER_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    broker = DyingBroker("tests.groups.dies_writing", tmp_path_factory.mktemp("deaths"), settings)
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
    is_shown: bool = True
    """Whether a describe request finds the group."""


def story(port: Callable[[], int], group: str, topic: str) -> list[Step]:
    """The life of a group, with every kind of record that it can write."""
    a, b = (ConsumerProtocolMember(port, group, name, (topic,)) for name in "ab")
    first, second = (
        ConsumerProtocolMember(port, group, name, (topic,), instance_id="static") for name in ("first", "second")
    )

    def told_half() -> None:
        a.obey()
        a.beat()

    def match(regex: str, *topics: str) -> None:
        a.topics, a.regex = topics, regex
        a.beat()

    def delete() -> None:
        request = m.DeleteGroupsRequest(groups_names=[group])
        answer = ask(port, request, 2, lambda answer: int(answer.results[0].error_code))
        assert answer.results[0].error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND)

    return [
        Step("GROUP", a.beat, a.obey),
        Step("TARGET", b.beat),
        # The member has to release a partition, which the group shows until it has released it.
        Step("CURRENT", a.beat, is_shown=False),
        Step("CURRENT", told_half),  # the member has released the partition
        Step("CURRENT", b.beat, partial(settle, a, b)),  # the other member gets the released partition
        Step("OFFSET", partial(b.commit, topic, 0, 7)),
        Step("REGEX", partial(match, f"{topic}.*"), partial(settle, a, b)),
        Step("REGEX gone", partial(match, "", topic), partial(settle, a, b)),
        Step("MEMBER", first.beat, partial(settle, a, b, first)),
        Step("CURRENT", partial(first.leave, GOES_AWAY)),
        Step("MEMBER gone", second.beat, partial(settle, a, b, second)),
        Step("TARGET gone", b.leave, partial(settle, a, second)),
        Step("TARGET_EPOCH", second.leave, partial(settle, a)),
        Step("CURRENT gone", a.leave),
        Step("OFFSET gone", delete),
    ]


KINDS = {*NAMES.values(), "REGEX gone", "MEMBER gone", "TARGET gone", "CURRENT gone", "OFFSET gone"} - {
    "CLASSIC",
    "TOPICS",  # The broker writes only its tombstone, together with that of the group.
}


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
        return picture(port, group)

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
        assert (now != before) == step.is_shown, step
        if moment:
            assert came_back == (before if moment == "before" else now), step
        step.behind()
        pictures += [now, seen()]
    return pictures


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_broker_dies_where_a_group_changes_its_protocol(broker: DyingBroker, moment: str) -> None:
    topic, group = create_topic(broker.bootstrap, 4), unique("group")
    fill(broker.bootstrap, topic, 4, 5)

    with Member(broker.bootstrap, group, topic) as classic, ThreadPoolExecutor(1) as pool:
        until(lambda: len(classic.values) == 20, "the classic member reads everything")
        classic.commit()
        assert kind_of(broker, group) == "classic"
        broker.where.write_text(f"CLASSIC gone {moment}")
        newer = Member(broker.bootstrap, group, topic, {"group.protocol": "consumer"})
        try:
            broker.comes_back()
            until(lambda: shared_out([classic, newer], 4) and len(newer.owned) == 2, "both protocols share")
            assert kind_of(broker, group) == "consumer"
        finally:
            broker.where.write_text(f"CLASSIC {moment}")
            stopped = pool.submit(newer.stop)
            broker.comes_back()
            stopped.result(WAIT_S)
        until(lambda: shared_out([classic], 4), "the classic member has everything again")
        until(lambda: kind_of(broker, group) == "classic", "and its group is classic again")
        fill(broker.bootstrap, topic, 4, 5, "more ")
        until(lambda: len(classic.values) == 40, "it reads on where it was, and nothing twice")
        assert len(set(classic.values)) == 40
        assert classic.commit() == dict.fromkeys(range(4), 10)


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_the_broker_dies_at_each_record_of_a_classic_group(broker: DyingBroker, moment: str) -> None:
    topic, group = create_topic(broker.bootstrap, 4), unique("group")
    fill(broker.bootstrap, topic, 4, 5)

    def dies_at(record: str) -> None:
        broker.where.write_text(f"{record} {moment}")

    dies_at("CLASSIC")
    with Member(broker.bootstrap, group, topic) as first, ThreadPoolExecutor(1) as pool:
        broker.comes_back()
        until(lambda: len(first.values) == 20, "the only member reads everything")
        dies_at("OFFSET")
        committed = pool.submit(first.commit)
        broker.comes_back()
        assert committed.result(WAIT_S) == dict.fromkeys(range(4), 5)
        dies_at("CLASSIC")
        second = Member(broker.bootstrap, group, topic)
        try:
            broker.comes_back()
            until(lambda: shared_out([first, second], 4) and len(second.owned) == 2, "they share")
            fill(broker.bootstrap, topic, 4, 5, "more ")
            until(lambda: len(first.values) + len(second.values) == 40, "both read on where the group was")
            first.commit()
            second.commit()
        finally:
            dies_at("CLASSIC")
            stopped = pool.submit(second.stop)
            broker.comes_back()
            stopped.result(WAIT_S)
        until(lambda: shared_out([first], 4), "who stays has everything")
        fill(broker.bootstrap, topic, 4, 5, "last ")
        until(lambda: len(first.values) + len(second.values) == 60, "and reads on")
        assert len({*first.values, *second.values}) == 60, "nothing twice"
        assert first.commit() == dict.fromkeys(range(4), 15)
        dies_at("CLASSIC")
        stopped = pool.submit(first.stop)
        broker.comes_back()
        stopped.result(WAIT_S)

    def delete() -> int:
        request = m.DeleteGroupsRequest(groups_names=[group])
        answer = ask(lambda: broker.port, request, 2, lambda answer: int(answer.results[0].error_code))
        return int(answer.results[0].error_code)

    def is_empty() -> bool:
        with WireClient(broker.port) as client:
            listed = client.call(m.ListGroupsRequest(), 5).groups
        return [one.group_state for one in listed if one.group_id == group] == ["Empty"]

    # A client that leaves sends one request: if that is lost, its session has to expire.
    until(is_empty, "nobody is left")
    dies_at("CLASSIC gone")
    with pytest.raises(OSError):  # noqa: PT011 (the connection ends, however it shows)
        delete()
    broker.comes_back()
    assert delete() == (0 if moment == "before" else ErrorCode.GROUP_ID_NOT_FOUND)
