"""Groups of the consumer protocol (KIP-848) with librdkafka: the coordinator assigns, and members continue after its
death."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from pybroker.client import AdminClient, TopicPartition
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups.consumer_protocol_member import ConsumerProtocolMember, ask, settle
from tests.groups.kit import Member, create_topic, delete_topic, fill, kind_of, members, shared_out, unique, until
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.kafka_tools import run_tool
from tests.wire.client import WireClient

NEWER: Mapping[str, object] = {"group.protocol": "consumer"}
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
}


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose consumer groups have short intervals."""
    broker = PybrokerProcess(tmp_path_factory.mktemp("newer"), SETTINGS)
    broker.start()
    yield broker
    broker.end()


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_are_shared_out_anew_with_each_member(newer: BrokerProcess, assignor: str) -> None:
    topic, group = create_topic(newer.bootstrap, 6), unique("group")
    fill(newer.bootstrap, topic, 6, 50)
    settings = {**NEWER, "group.remote.assignor": assignor}
    with Member(newer.bootstrap, group, topic, settings) as first:
        until(lambda: len(first.values) == 300, "the only member reads everything")
        first.commit()
        with Member(newer.bootstrap, group, topic, settings) as second:
            until(lambda: shared_out([first, second], 6) and len(second.owned) == 3, "two members share")
            assert all(len(lost) <= 3 for lost in first.revocations), "only what moves is given up"
            fill(newer.bootstrap, topic, 6, 50, "more ")
            until(lambda: len(first.values) + len(second.values) >= 600, "both read on")
            assert len(set(first.values) | set(second.values)) == len(first.values) + len(second.values)
        until(lambda: shared_out([first], 6), "the rest goes back to the first")
        assert not first.errors


@pytest.mark.checklist("D37")
def test_members_go_on_when_the_coordinator_is_killed(start_broker: StartBroker) -> None:
    broker = start_broker(SETTINGS)
    topic, group = create_topic(broker.bootstrap, 6), unique("group")
    with members(2, broker.bootstrap, group, topic, NEWER) as both:
        until(lambda: shared_out(both, 6) and all(member.owned for member in both), "both own something")
        # Write records only now: otherwise one member could read everything, and the other would have nothing to
        # commit.
        fill(broker.bootstrap, topic, 6, 20)
        until(lambda: sum(len(m.values) for m in both) == 120, "both read")
        for member in both:
            member.commit()
        before = [set(member.owned) for member in both]
        disturbed = [len(member.revocations) for member in both]
        described = describe(broker, group)
        broker.kill()
        broker.start()
        fill(broker.bootstrap, topic, 6, 20, "more ")
        until(lambda: sum(len(m.values) for m in both) == 240, "both read on")
        assert [set(member.owned) for member in both] == before
        assert [len(member.revocations) for member in both] == disturbed
        for member in both:
            member.commit()
        assert describe(broker, group) == described
        assert described["group_epoch"] == described["assignment_epoch"]


def describe(broker: BrokerProcess, group: str) -> dict[str, object]:
    """Epochs and members of a group, from ConsumerGroupDescribe."""
    with WireClient(broker.port) as client:
        answer = client.call(m.ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
    assert answer.error_code == 0, answer
    return {
        "state": answer.group_state,
        "group_epoch": answer.group_epoch,
        "assignment_epoch": answer.assignment_epoch,
        "members": sorted(
            (
                member.member_id,
                member.member_epoch,
                member.member_type,
                [(topic.topic_name, topic.partitions) for topic in member.assignment.topic_partitions],
            )
            for member in answer.members
        ),
    }


def test_a_static_member_comes_back_to_its_partitions(newer: BrokerProcess) -> None:
    topic, group = create_topic(newer.bootstrap), unique("group")
    settings = [{**NEWER, "group.instance.id": unique("static")} for _ in range(2)]
    with Member(newer.bootstrap, group, topic, settings[0]) as first:
        with Member(newer.bootstrap, group, topic, settings[1]) as second:
            until(lambda: shared_out([first, second], 4) and len(second.owned) == 2, "both own something")
            before = set(second.owned)
            disturbed = len(first.revocations)
        with Member(newer.bootstrap, group, topic, settings[1]) as again:
            until(lambda: again.owned == before, "it gets the same partitions")
            assert len(first.revocations) == disturbed


def test_topics_by_regular_expression_come_and_go(newer: BrokerProcess) -> None:
    prefix, group = unique("many"), unique("group")
    one = create_topic(newer.bootstrap, 1, f"{prefix}-one")
    fill(newer.bootstrap, one, 1, 10, "one ")
    with Member(newer.bootstrap, group, f"^{prefix}-.*", NEWER) as member:
        until(lambda: len(member.values) == 10, "it reads the first topic")
        two = create_topic(newer.bootstrap, 1, f"{prefix}-two")
        fill(newer.bootstrap, two, 1, 10, "two ")
        until(lambda: len(member.values) == 20, "and the one that came")
        member.commit()


def test_an_expression_takes_no_longer_than_the_names_are_long(newer: BrokerProcess) -> None:
    """A matcher that tries each way in turn would take longer than the age of the universe."""
    topic = create_topic(newer.bootstrap, 1, "a" * 200)
    member = ConsumerProtocolMember(lambda: newer.port, unique("group"), "member", regex="(a+)+b|(a*)*c|((a|aa)+)+d")
    member.beat()
    assert (member.epoch > 0, member.told) == (True, frozenset())
    member.regex = "(a+)+"
    settle(member)
    assert [index for _, index in member.owned] == [0]
    delete_topic(newer.bootstrap, topic)
    settle(member)
    assert not member.owned
    member.leave()


def test_an_expression_that_needs_too_much_memory_is_refused(newer: BrokerProcess) -> None:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=unique("group"),
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="((a{1,1000}){1,1000}){1,1000}",
        topic_partitions=[],
    )
    answer = ask(lambda: newer.port, request, 1, lambda answer: int(answer.error_code))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_topic_that_is_created_again_is_read_from_its_start(newer: BrokerProcess) -> None:
    """The member may read records of the new topic twice, also from Apache Kafka: librdkafka finds the new topic by its
    name and reads it before a heartbeat revokes the old topic and assigns the new one. Without a commit, the assigned
    partitions start at offset 0 again."""
    topic, group = create_topic(newer.bootstrap, 2), unique("group")
    fill(newer.bootstrap, topic, 2, 10, "old ")
    with Member(newer.bootstrap, group, topic, NEWER) as member:
        until(lambda: len(member.values) == 20, "the first topic is read")
        member.commit()
        delete_topic(newer.bootstrap, topic)
        create_topic(newer.bootstrap, 2, topic)
        fill(newer.bootstrap, topic, 2, 5, "new ")
        written = {f"new {partition}:{index}" for partition in range(2) for index in range(5)}
        until(lambda: written <= set(member.values), "and the next one")
        assert len([value for value in member.values if value.startswith("old")]) == 20
        assert set(member.values[20:]) == written


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_running_classic_group_is_upgraded_and_returns(newer: BrokerProcess, strategy: str) -> None:
    topic, group = create_topic(newer.bootstrap, 6), unique("group")
    fill(newer.bootstrap, topic, 6, 20)
    classic = {"partition.assignment.strategy": strategy}

    with Member(newer.bootstrap, group, topic, classic) as first:
        until(lambda: len(first.values) == 120, "the classic member reads everything")
        first.commit()
        with Member(newer.bootstrap, group, topic, NEWER) as second:
            until(lambda: shared_out([first, second], 6) and len(second.owned) == 3, "both protocols share")
            assert kind_of(newer, group) == "consumer"
            fill(newer.bootstrap, topic, 6, 20, "more ")
            until(lambda: len(first.values) + len(second.values) >= 240, "both read on")
            first.commit()
            second.commit()
        until(lambda: shared_out([first], 6), "the classic member has everything again")
        assert kind_of(newer, group) == "classic"
        fill(newer.bootstrap, topic, 6, 20, "last ")
        until(lambda: len([value for value in first.values if value.startswith("last")]) == 120, "it reads on")
        first.commit()
        assert not first.errors


def test_the_features_are_finalized(newer: BrokerProcess) -> None:
    with WireClient(newer.port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    assert [(one.name, one.min_version, one.max_version) for one in answer.supported_features] == [
        ("group.version", 0, 1),
        ("share.version", 0, 2),
        ("streams.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    assert answer.finalized_features_epoch == 0
    assert [(one.name, one.max_version_level) for one in answer.finalized_features] == [
        ("group.version", 1),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]


def test_kafkas_tool_shows_groups_of_both_protocols(newer: BrokerProcess) -> None:
    topic = create_topic(newer.bootstrap, 2)
    fill(newer.bootstrap, topic, 2, 5)
    groups = {unique("newer"): NEWER, unique("classic"): {}}
    (one, settings), (other, _) = groups.items()
    with Member(newer.bootstrap, one, topic, settings) as newer_member, Member(newer.bootstrap, other, topic) as old:
        until(lambda: len(newer_member.values) == len(old.values) == 10, "both read")
        newer_member.commit()
        listed = run_tool(
            "kafka-consumer-groups", ["--bootstrap-server", newer.bootstrap, "--list", "--type", "consumer"]
        )
        assert one in listed.split()
        assert other not in listed.split()
        shown = run_tool(
            "kafka-consumer-groups",
            ["--bootstrap-server", newer.bootstrap, "--describe", "--group", one, "--members", "--verbose"],
        )
        assert f"{topic}(0,1)" in shown.replace(" ", "") or f"{topic}:0,1" in shown.replace(" ", ""), shown
        lag = run_tool("kafka-consumer-groups", ["--bootstrap-server", newer.bootstrap, "--describe", "--group", one])
        assert [line.split()[3:6] for line in lag.splitlines() if topic in line] == [["5", "5", "0"]] * 2


async def test_our_own_admin_client_describes_them(newer: BrokerProcess) -> None:
    topic, group = create_topic(newer.bootstrap, 2), unique("group")
    fill(newer.bootstrap, topic, 2, 1)
    async with AdminClient({"bootstrap.servers": newer.bootstrap}) as admin:
        with Member(newer.bootstrap, group, topic, NEWER) as member:
            await asyncio.to_thread(until, lambda: len(member.values) == 2, "it reads")
            found = (await admin.describe_groups([group]))[group]
            assert (found.state, found.protocol_type, found.partition_assignor) == ("Stable", "consumer", "uniform")
            (one,) = found.members
            assert sorted(one.assignment) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert (await admin.describe_groups([group]))[group].state == "Empty"
        assert group in [each.group_id for each in await admin.list_groups() if each.type == "consumer"]


def test_a_java_consumer(newer: BrokerProcess) -> None:
    topic, group = create_topic(newer.bootstrap, 2), unique("group")
    fill(newer.bootstrap, topic, 2, 10)
    printed = run_tool(
        "kafka-console-consumer",
        [
            "--bootstrap-server", newer.bootstrap, "--topic", topic, "--group", group, "--max-messages", "20",
            "--timeout-ms", "60000", "--command-property", "group.protocol=consumer",
            "--command-property", "auto.offset.reset=earliest",
        ],
    )  # fmt: skip
    assert sorted(printed.split()) == sorted(f"{p}:{i}" for p in range(2) for i in range(10))
    with WireClient(newer.port) as client:
        answer = client.call(m.ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
    assert (answer.error_code, answer.group_state) == (0, "Empty")
