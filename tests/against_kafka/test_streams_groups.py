"""The same heartbeats to pybroker and Apache Kafka get the same responses, errors included."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import ask
from tests.groups.kit import create_topic, unique, until
from tests.streams.member import (
    GOES_AWAY,
    StreamsMember,
    counting,
    described,
    picture,
    settle,
    subtopology,
    told,
)
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

MISSING_INTERNAL = 3


class Responses(list[Any]):
    """Responses of a broker, in order."""

    def note(self, answer: Any) -> Any:
        """Record a response to a heartbeat."""
        said = told(answer)
        # Kafka loses the endpoint of a group's first member: its epoch is lower by one. The test compares whether
        # members get the endpoints.
        del said["endpoint epoch"]
        # Kafka's order is random.
        said["statuses"] = [(code, sorted(re.split(r"[ ,;]+", detail))) for code, detail in said["statuses"] or ()]
        self.append(said)
        return answer


Story = Callable[[Callable[[], int], str, tuple[str, str], Responses], None]


def made(member: StreamsMember, answers: Responses) -> None:
    """Join, and wait until the internal topics are created."""
    answers.note(member.beat())
    until(
        lambda: all(status.status_code != MISSING_INTERNAL for status in member.beat().status or ()),
        "internal topics are made",
    )
    settle(member)


def two_share(port: Callable[[], int], group: str, topics: tuple[str, str], answers: Responses) -> None:
    parts = counting(topics[0], group)
    first = StreamsMember(port, group, "first", parts, endpoint=("one", 1))
    second = StreamsMember(port, group, "second", parts, endpoint=("two", 2))
    made(first, answers)
    answers.append(picture(port, group))
    answers.note(second.beat())
    answers.append(picture(port, group))
    answers.note(first.beat())
    answers.append(picture(port, group)["state"])
    first.obey()
    answers.note(first.beat())
    answers.note(second.beat())
    second.obey()
    answers.note(second.beat())
    settle(first, second)
    answers.append(picture(port, group))
    answers.note(first.send())
    answers += [first.commit(topics[0], 0, 3, epoch) for epoch in (first.epoch, 1, 99)]
    second.leave()
    answers.note(first.send())
    answers.append(picture(port, group)["epochs"])
    answers.note(first.send(epoch=77))
    answers.note(second.send(epoch=5))
    first.leave()
    answers.append(picture(port, group))


def static_member(port: Callable[[], int], group: str, topics: tuple[str, str], answers: Responses) -> None:
    parts = [subtopology("0", sources=(topics[0],))]
    one = StreamsMember(port, group, "one", parts, instance_id="static")
    answers.note(one.beat())
    one.obey()
    settle(one)
    two = StreamsMember(port, group, "two", parts, process_id="one", instance_id="static")
    answers.note(two.send())
    answers.note(one.send(GOES_AWAY))
    answers.append(picture(port, group))
    answers.note(two.send())
    answers.append(picture(port, group))
    answers.note(one.send(epoch=3))


def shutdown(port: Callable[[], int], group: str, topics: tuple[str, str], answers: Responses) -> None:
    parts = [subtopology("0", sources=(topics[0],))]
    one, two = (StreamsMember(port, group, name, parts) for name in ("one", "two"))
    for member in (one, two):
        member.beat()
    settle(one, two)
    answers.note(one.beat(shutdown_application=True))
    answers.note(two.beat())
    one.leave()
    answers.note(two.beat())
    two.leave()
    answers.note(StreamsMember(port, group, "three", parts).beat())


def topologies(port: Callable[[], int], group: str, topics: tuple[str, str], answers: Responses) -> None:
    def one(name: str, *parts: m.StreamsGroupHeartbeatRequest_Subtopology, **more: Any) -> StreamsMember:
        return StreamsMember(port, f"{group}-{name}", "one", list(parts), **more)

    answers.note(one("missing", subtopology("0", sources=(topics[0], "none1", "none2"))).send())
    answers.append(picture(port, f"{group}-missing"))
    answers.note(one("apart", subtopology("0", sources=topics, together=True)).send())
    answers.note(one("regex", subtopology("0", regexes=("a.*",))).send())
    answers.note(one("own", subtopology("0", sources=("__consumer_offsets",))).send())
    answers.note(one("name", subtopology("0", sources=("no name",))).send())
    wrong = subtopology("0", sources=(topics[0],), changelogs=(f"{group}-x",))
    wrong.state_changelog_topics[0].partitions = 3
    answers.note(one("changelog", wrong).send())
    stays = one("stays", subtopology("0", sources=(topics[0],)))
    answers.note(stays.send())
    answers.note(one("stays", subtopology("0", sources=(topics[1],))).send())
    answers.note(one("stays", subtopology("0", sources=(topics[1],)), topology_epoch=1).send())
    answers.note(one("stays", subtopology("0", sources=(topics[0],)), process_id="other").send())
    fixed = subtopology("1", repartition=(f"{group}-fixed",), changelogs=(f"{group}-counts",), partitions=5)
    answers.note(one("fixed", subtopology("0", sources=(topics[0],), sinks=(f"{group}-fixed",)), fixed).send())
    exists = subtopology("1", repartition=(topics[1],), sources=(topics[0],), together=True)
    answers.note(one("exists", subtopology("0", sources=(topics[0],), sinks=(topics[1],)), exists).send())


def forms(port: Callable[[], int], group: str, topics: tuple[str, str], answers: Responses) -> None:
    member = StreamsMember(port, group, "one", [subtopology("0", sources=(topics[0],))])
    for more in (
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"group_id": ""},
    ):
        answers.note(member.send(0, **more))
    answers.note(member.send(7))
    answers.note(member.send(GOES_AWAY))
    answers.note(member.send(-3))
    member.beat()
    answers.note(member.send(active_tasks=[m.StreamsGroupHeartbeatRequest_TaskIds(subtopology_id="9", partitions=[0])]))
    answers.note(member.send(active_tasks=[m.StreamsGroupHeartbeatRequest_TaskIds(subtopology_id="0", partitions=[9])]))
    answers.append([described(port, name).error_code for name in ("nobody", f"{group}x")])
    described_by_it = m.StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group,
        member_id="one",
        topology_description=m.StreamsGroupTopologyDescriptionUpdateRequest_TopologyDescription(),
    )
    answers.append(ask(port, described_by_it, 0, lambda answer: int(answer.error_code)).error_code)


def other_groups(port: Callable[[], int], group: str, topics: tuple[str, str], answers: Responses) -> None:
    """Groups of another type, and of no type, which have only offsets."""
    parts = [subtopology("0", sources=(topics[0],))]

    def consumer(name: str) -> m.ConsumerGroupHeartbeatRequest:
        return m.ConsumerGroupHeartbeatRequest(
            group_id=name,
            member_id="c",
            rebalance_timeout_ms=9000,
            subscribed_topic_names=[topics[0]],
            topic_partitions=[],
        )

    def code(answer: Any) -> int:
        return int(answer.error_code)

    def listed(name: str) -> list[tuple[str, str, str]]:
        with WireClient(port()) as client:
            found = client.call(m.ListGroupsRequest(), 5).groups
        return [(one.group_type, one.protocol_type, one.group_state) for one in found if one.group_id == name]

    answers.append(ask(port, consumer(f"{group}-c"), 1, code).error_code)
    answers.note(StreamsMember(port, f"{group}-c", "one", parts).send())
    one = StreamsMember(port, group, "one", parts)
    one.beat()
    answers.append(ask(port, consumer(group), 1, code).error_message)
    joins = m.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequest_JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answers.append(ask(port, joins, 9, code).error_code)
    answers.append(listed(group))
    answers.append(
        ask(port, m.DeleteGroupsRequest(groups_names=[group]), 2, lambda all_: int(all_.results[0].error_code))
        .results[0]
        .error_code
    )
    one.commit(topics[0], 0, 5)
    one.leave()
    answers.append(listed(group))
    answers.append(ask(port, joins, 9, code).error_code)
    # Kafka answers before the change is on disk.
    until(lambda: described(port, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "it is a classic group now")
    two = StreamsMember(port, group, "two", parts)
    answers.note(two.send())
    answers.append(picture(port, group)["offsets"])
    two.leave()
    answers.append(
        ask(port, m.DeleteGroupsRequest(groups_names=[group]), 2, lambda all_: int(all_.results[0].error_code))
        .results[0]
        .error_code
    )
    answers.append(listed(group))


STORIES: list[Story] = [two_share, static_member, shutdown, topologies, forms, other_groups]


@pytest.mark.parametrize("story", STORIES)
def test_what_kafka_answers(both: list[BrokerProcess], story: Story) -> None:
    group = unique("group")
    topics = unique("lines"), unique("other")
    found: list[Responses] = []
    for broker in both:
        for topic, partitions in zip(topics, (4, 3), strict=True):
            create_topic(broker.bootstrap, partitions, topic)
        answers = Responses()

        def port(broker: BrokerProcess = broker) -> int:
            return broker.port

        probe = StreamsMember(port, f"{group}-probe", "one", [subtopology("0", sources=topics)])
        until(lambda probe=probe: not probe.beat().status, "the topics are known")  # type: ignore[misc]
        probe.leave()
        story(port, group, topics, answers)
        found.append(answers)
    ours, kafkas = found
    assert len(ours) == len(kafkas)
    for number, (one, other) in enumerate(zip(ours, kafkas, strict=True)):
        assert one == other, f"{story.__name__}, answer {number}"
