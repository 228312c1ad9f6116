"""A group gets a new assignment at most once in its interval. Changes in between are not lost, although the members'
heartbeats change nothing. The tests cover each protocol with assignment by the broker, with settings of the broker and
of the group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import MOVING
from tests.groups.kit import WAIT_S, create_topic, unique, until
from tests.groups.requests import LONG_MS, consumer_beat
from tests.groups.test_cached_responses import with_settings
from tests.streams.member import StreamsMember, subtopology
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.wire.client import WireClient

INTERVAL_S = 5.0
KINDS = ("consumer", "share", "streams")
BROKER_RESOURCE = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {f"group.{kind}.assignment.interval.ms": "0" for kind in KINDS}
    # Responses to heartbeats are cached once the heartbeat interval has passed since the last target.
    settings |= {f"group.consumer.{which}heartbeat.interval.ms": "100" for which in ("", "min.")}
    settings["group.streams.initial.rebalance.delay.ms"] = "0"
    broker = PybrokerProcess(tmp_path_factory.mktemp("interval"), settings)
    broker.start()
    with WireClient(broker.port) as client:
        client.call(m.FindCoordinatorRequest(coordinator_keys=["any"]), 4)
    yield broker
    broker.end()


class Member:
    """A member of a group of any kind, with its own connection: data threads answer from the cache."""

    def __init__(self, client: WireClient, group: str, name: str, topic: str) -> None:
        self.client, self.group, self.name, self.topic = client, group, name, topic
        self.epoch = 0
        self.has: frozenset[Any] = frozenset()
        """The assigned partitions."""

    def request(self, *, full: bool) -> Any:
        """Send a heartbeat; unless `full`, one that changes nothing."""
        raise NotImplementedError

    def told(self, answer: Any) -> frozenset[Any] | None:
        """Return the assignment in a response; None: unchanged."""
        if answer.assignment is None:
            return None
        rows = answer.assignment.topic_partitions
        return frozenset((row.topic_id, index) for row in rows for index in row.partitions)

    def beat(self, *, full: bool = False) -> None:
        give_up = time.monotonic() + WAIT_S
        while (answer := self.client.call(self.request(full=full), 1)).error_code in MOVING:
            assert time.monotonic() < give_up, answer
            time.sleep(0.02)
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        self.epoch = max(answer.member_epoch, 0)
        told = self.told(answer)
        self.has = self.has if told is None else told

    def leave(self) -> None:
        self.epoch = -1
        self.beat()


class OfConsumerGroup(Member):
    def request(self, *, full: bool) -> Any:
        if not full:
            return consumer_beat(self.group, self.name, self.epoch)
        owned = [
            m.ConsumerGroupHeartbeatRequest_TopicPartitions(topic_id=topic_id, partitions=[index])
            for topic_id, index in self.has
        ]
        return consumer_beat(
            self.group,
            self.name,
            self.epoch,
            rebalance_timeout_ms=LONG_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=owned,
        )


class OfShareGroup(Member):
    def request(self, *, full: bool) -> Any:
        return m.ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.name,
            member_epoch=self.epoch,
            subscribed_topic_names=[self.topic] if full else None,
        )


class OfStreamsGroup(Member):
    def request(self, *, full: bool) -> Any:
        parts = [subtopology("0", sources=(self.topic,))]
        member = StreamsMember(lambda: 0, self.group, self.name, parts)
        member.owned = {**member.owned, "active": {"0": sorted(self.has)}}
        return member.request(self.epoch) if full else m.StreamsGroupHeartbeatRequest(
            group_id=self.group, member_id=self.name, member_epoch=self.epoch
        )

    def told(self, answer: Any) -> frozenset[Any] | None:
        tasks = answer.active_tasks
        return None if tasks is None else frozenset(index for task in tasks for index in task.partitions)


OF_KIND: dict[str, type[Member]] = {"consumer": OfConsumerGroup, "share": OfShareGroup, "streams": OfStreamsGroup}


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def two(broker: BrokerProcess, connections: ExitStack, kind: str) -> tuple[Member, Member]:
    """Two members of one group, over a topic with four partitions."""
    topic, group = create_topic(broker.bootstrap, 4), unique(kind)
    clients = [connections.enter_context(WireClient(broker.port)) for _ in range(2)]
    first, second = (
        OF_KIND[kind](client, group, name, topic) for client, name in zip(clients, ("first", "second"), strict=True)
    )
    return first, second


def gets_something(member: Member, *others: Member) -> None:
    """Send full heartbeats until the member has an assignment; other members release theirs."""

    def has() -> bool:
        for one in (*others, member):
            one.beat(full=True)
        return bool(member.has)

    until(has, f"{member.name} is given something")


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_member_waits_for_the_interval_and_no_longer(
    broker: BrokerProcess, connections: ExitStack, kind: str
) -> None:
    first, second = two(broker, connections, kind)
    begin = time.monotonic()
    gets_something(first)
    with_settings(first.client, first.group, {f"{kind}.assignment.interval.ms": str(int(INTERVAL_S * 1000))})
    second.beat(full=True)
    epoch = second.epoch
    assert epoch > 0
    assert not second.has

    def moves() -> bool:
        for member in (first, second):
            member.beat()
        return second.epoch > epoch

    until(moves, "there is another target")
    # The broker's clock counts whole milliseconds.
    assert time.monotonic() - begin > INTERVAL_S - 0.01
    gets_something(second, first)


def test_who_stays_hears_of_it_by_heartbeats_that_the_control_plane_does_not_see(
    broker: BrokerProcess, connections: ExitStack
) -> None:
    first, second = two(broker, connections, "consumer")
    gets_something(first)
    begin = time.monotonic()
    gets_something(second, first)
    with_settings(first.client, first.group, {"consumer.assignment.interval.ms": str(int(INTERVAL_S * 1000))})
    rests = time.monotonic() + 1.0
    while time.monotonic() < rests:
        second.beat()
    epoch = second.epoch
    first.leave()

    def moves() -> bool:
        second.beat()
        return second.epoch > epoch

    until(moves, "it is told")
    assert time.monotonic() - begin > INTERVAL_S - 0.01
    assert len(second.has) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_of_the_broker_changes_while_it_runs(
    broker: BrokerProcess, connections: ExitStack, kind: str
) -> None:
    first, second = two(broker, connections, kind)
    name = f"group.{kind}.assignment.interval.ms"
    gets_something(first)
    with_settings(first.client, "", {name: "15000"}, BROKER_RESOURCE)
    try:
        second.beat(full=True)
        epoch = second.epoch
        for _ in range(5):
            first.beat()
            second.beat()
        assert (second.epoch, second.has) == (epoch, frozenset())
    finally:
        with_settings(first.client, "", {name: "0"}, BROKER_RESOURCE)
    second.beat(full=True)
    assert second.epoch > epoch
    gets_something(second, first)
