"""Settings of single groups (`--entity-type groups`): by Kafka's tool and over a socket; members of the group obey at
their next heartbeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pybroker.client import AlterConfigOp, ConfigResource, ConfigResourceType, ConfigSource, blocking
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.consumer_protocol_member import ConsumerProtocolMember
from tests.groups.kit import create_topic, unique, until
from tests.support.brokers import BrokerProcess, PybrokerProcess
from tests.support.kafka_tools import ToolError, run_tool
from tests.wire.client import WireClient

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
GROUP, SET, DELETE, APPEND = 32, 0, 1, 2
OF_GROUP, OF_FILE, BY_DEFAULT = 8, 4, 5
"""Codes of ConfigSource."""
BOUNDS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.max.heartbeat.interval.ms": "20000",
    # A joining member gets the group's interval at once.
    "group.consumer.rebalance.heartbeat.interval.ms": "20000",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = PybrokerProcess(tmp_path_factory.mktemp("groups"), BOUNDS)
    broker.start()
    yield broker
    broker.end()


def altered(broker: BrokerProcess, group: str, values: Mapping[str, str | None], op: int = SET) -> tuple[int, str]:
    """Change settings; return error code and message. None removes a setting."""
    request = m.IncrementalAlterConfigsRequest(
        resources=[
            m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                resource_type=GROUP,
                resource_name=group,
                configs=[
                    m.IncrementalAlterConfigsRequest_AlterableConfig(
                        name=name, config_operation=DELETE if value is None else op, value=value
                    )
                    for name, value in values.items()
                ],
            )
        ]
    )
    with WireClient(broker.port) as wire:
        (answer,) = wire.call(request, 1).responses
    return answer.error_code, answer.error_message or ""


def described(broker: BrokerProcess, group: str) -> dict[str, tuple[str, int, list[tuple[str, str, int]]]] | int:
    """Return setting → (value, source, synonyms), or the error code."""
    resource = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=GROUP, resource_name=group, configuration_keys=None
    )
    with WireClient(broker.port) as wire:
        request = m.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        (answer,) = wire.call(request, 4).results
    if answer.error_code:
        return int(answer.error_code)
    return {
        one.name: (one.value, one.config_source, [(each.name, each.value, each.source) for each in one.synonyms])
        for one in answer.configs
    }


def interval_told(broker: BrokerProcess, member: ConsumerProtocolMember) -> int:
    """Return the interval in the response to an unchanged heartbeat."""
    with WireClient(broker.port) as wire:
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=member.group, member_id=member.member_id, member_epoch=member.epoch
        )
        answer = wire.call(request, 1)
    assert answer.error_code == 0
    return int(answer.heartbeat_interval_ms)


def joined(broker: BrokerProcess, group: str) -> ConsumerProtocolMember:
    """Return a member that has its partitions."""
    with WireClient(broker.port) as wire:
        wire.call(m.FindCoordinatorRequest(coordinator_keys=[group]), 4)
    member = ConsumerProtocolMember(lambda: broker.port, group, "member", (create_topic(broker.bootstrap, 1),))
    member.beat()
    member.obey()
    return member


def test_they_are_kept_shown_and_taken_back(broker: BrokerProcess) -> None:
    group = unique("group/with.odd ~ name")
    defaults = {
        INTERVAL: ("5000", BY_DEFAULT, [("group.consumer.heartbeat.interval.ms", "5000", BY_DEFAULT)]),
        SESSION: ("45000", BY_DEFAULT, [("group.consumer.session.timeout.ms", "45000", BY_DEFAULT)]),
        **{
            f"share.{name}": (value, BY_DEFAULT, [(f"group.share.{name}", value, BY_DEFAULT)])
            for name, value in (
                ("session.timeout.ms", "45000"),
                ("heartbeat.interval.ms", "5000"),
                ("record.lock.duration.ms", "30000"),
                ("delivery.count.limit", "5"),
                ("partition.max.record.locks", "2000"),
            )
        },
        **{
            f"streams.{name}": (value, BY_DEFAULT, [(f"group.streams.{name}", value, BY_DEFAULT)])
            for name, value in (
                ("session.timeout.ms", "45000"),
                ("heartbeat.interval.ms", "5000"),
                ("assignment.interval.ms", "1000"),
                ("num.standby.replicas", "0"),
                ("initial.rebalance.delay.ms", "3000"),
                ("rack.aware.assignment.tags", ""),
            )
        },
        **{
            f"{kind}.assignment.interval.ms": ("0", OF_FILE, [(name, "0", OF_FILE), (name, "1000", BY_DEFAULT)])
            for kind, name in ((kind, f"group.{kind}.assignment.interval.ms") for kind in ("consumer", "share"))
        },
        "streams.assignor.name": (None, BY_DEFAULT, []),
        "share.auto.offset.reset": ("latest", BY_DEFAULT, []),
        "share.isolation.level": ("read_uncommitted", BY_DEFAULT, []),
        "share.renew.acknowledge.enable": ("true", BY_DEFAULT, []),
        "errors.deadletterqueue.copy.record.enable": ("false", BY_DEFAULT, []),
        "errors.deadletterqueue.topic.name": ("", BY_DEFAULT, []),
    }
    assert described(broker, group) == defaults
    assert altered(broker, group, {SESSION: "50000", INTERVAL: "7000"})[0] == 0
    assert altered(broker, group, {INTERVAL: None})[0] == 0
    own = (SESSION, "50000", OF_GROUP)
    expected = {**defaults, SESSION: ("50000", OF_GROUP, [own, *defaults[SESSION][2]])}
    assert described(broker, group) == expected
    broker.kill()
    broker.start()
    assert described(broker, group) == expected
    assert described(broker, unique("other")) == defaults
    assert altered(broker, group, {SESSION: None})[0] == 0
    assert described(broker, group) == defaults


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_where_assignors_run_can_be_set_as_in_kafka(broker: BrokerProcess, kind: str) -> None:
    """The setting has no effect in pybroker, but the broker accepts it."""
    group, name = unique("offload"), f"{kind}.assignor.offload.enable"
    assert altered(broker, group, {name: "false"})[0] == 0
    assert altered(broker, group, {name: "perhaps"})[0] == ErrorCode.INVALID_CONFIG
    assert altered(broker, group, {name: None})[0] == 0


@pytest.mark.parametrize(
    ("values", "code", "says"),
    [
        ({SESSION: "999"}, ErrorCode.INVALID_CONFIG, "group.consumer.min.session.timeout.ms=1000"),
        ({SESSION: "60001"}, ErrorCode.INVALID_CONFIG, "group.consumer.max.session.timeout.ms=60000"),
        ({INTERVAL: "99"}, ErrorCode.INVALID_CONFIG, "group.consumer.min.heartbeat.interval.ms=100"),
        ({INTERVAL: "20001"}, ErrorCode.INVALID_CONFIG, "group.consumer.max.heartbeat.interval.ms=20000"),
        ({INTERVAL: "soon"}, ErrorCode.INVALID_CONFIG, "expected a whole number"),
        (
            {"consumer.assignment.interval.ms": "15001"},
            ErrorCode.INVALID_CONFIG,
            "group.consumer.max.assignment.interval.ms=15000",
        ),
        ({"share.assignment.interval.ms": "-1"}, ErrorCode.INVALID_CONFIG, "share.assignment.interval.ms=-1"),
        ({SESSION: "9000", INTERVAL: "9000"}, ErrorCode.INVALID_CONFIG, "below consumer.session.timeout.ms=9000"),
        ({SESSION: "5000"}, ErrorCode.INVALID_CONFIG, "below consumer.session.timeout.ms=5000"),
        ({"consumer.session.timeout.m": "9000"}, ErrorCode.INVALID_CONFIG, f"did you mean {SESSION}?"),
        ({"streams.num.standby.replicas": "3"}, ErrorCode.INVALID_CONFIG, "group.streams.max.standby.replicas=2"),
        ({"streams.session.timeout.ms": "1"}, ErrorCode.INVALID_CONFIG, "group.streams.min.session.timeout.ms=45000"),
        ({"streams.assignor.name": "other"}, ErrorCode.INVALID_CONFIG, "streams.assignor.name=other"),
        ({"streams.rack.aware.assignment.tags": "a,a"}, ErrorCode.INVALID_CONFIG, "empty or repeated entries"),
        ({"retention.ms": "9000"}, ErrorCode.INVALID_CONFIG, "unknown group setting retention.ms"),
    ],
)
def test_what_no_group_may_have_is_refused(
    broker: BrokerProcess, values: dict[str, str | None], code: ErrorCode, says: str
) -> None:
    group = unique("group")
    before = described(broker, group)
    refused, message = altered(broker, group, values)
    assert refused == code
    assert says in message
    assert described(broker, group) == before


def test_shape_of_the_request(broker: BrokerProcess) -> None:
    assert altered(broker, "", {SESSION: "50000"})[0] == ErrorCode.INVALID_REQUEST
    assert described(broker, "") == ErrorCode.INVALID_REQUEST
    assert altered(broker, "any", {SESSION: "50000"}, APPEND)[0] == ErrorCode.INVALID_CONFIG


def test_members_are_told_at_their_next_heartbeat(broker: BrokerProcess) -> None:
    group = unique("group")
    member = joined(broker, group)
    assert interval_told(broker, member) == 5_000
    assert altered(broker, group, {INTERVAL: "300"})[0] == 0
    assert interval_told(broker, member) == 300
    assert altered(broker, group, {INTERVAL: None})[0] == 0
    assert interval_told(broker, member) == 5_000


def test_a_session_is_as_long_as_its_group_says(broker: BrokerProcess) -> None:
    """The session becomes much shorter from the next heartbeat on; members of another group stay."""
    group, other = unique("group"), unique("other")
    silent, stays = joined(broker, group), joined(broker, other)
    assert altered(broker, group, {SESSION: "1000", INTERVAL: "100"})[0] == 0
    silent.beat()

    def members(of: str) -> int:
        with WireClient(broker.port) as wire:
            return len(wire.call(m.ConsumerGroupDescribeRequest(group_ids=[of]), 1).groups[0].members)

    until(lambda: members(group) == 0, "its session is over")
    stays.beat()
    assert members(other) == 1


def test_bounds_that_became_narrower_hold(broker: BrokerProcess) -> None:
    """The broker's settings become narrower at its next start; the group's own setting stays stored."""
    group = unique("group")
    assert altered(broker, group, {INTERVAL: "200"})[0] == 0
    broker.stop()
    broker.settings["group.consumer.min.heartbeat.interval.ms"] = "400"
    try:
        broker.start()
        shown = described(broker, group)
        assert isinstance(shown, dict)
        assert shown[INTERVAL][0] == "200"
        assert interval_told(broker, joined(broker, group)) == 400
    finally:
        broker.settings["group.consumer.min.heartbeat.interval.ms"] = "100"
        broker.restart()


def test_kafkas_tool(broker: BrokerProcess) -> None:
    group = unique("group")

    def configs(*arguments: str) -> str:
        whose = ("--entity-type", "groups", "--entity-name", group)
        return run_tool("kafka-configs", ["--bootstrap-server", broker.bootstrap, *whose, *arguments])

    configs("--alter", "--add-config", f"{SESSION}=50000,{INTERVAL}=6000")
    assert f"{SESSION}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{SESSION}=50000" in configs("--describe")
    configs("--alter", "--delete-config", SESSION)
    shown = configs("--describe")
    assert f"{SESSION}=50000" not in shown
    assert f"{INTERVAL}=6000" in shown
    with pytest.raises(ToolError, match="InvalidConfigurationException"):
        configs("--alter", "--add-config", f"{SESSION}=1")


def test_our_own_client(broker: BrokerProcess) -> None:
    one = ConfigResource(ConfigResourceType.GROUP, unique("group"))
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.incremental_alter_configs({one: [AlterConfigOp(INTERVAL, "6000")]})
        shown = admin.describe_configs([one]).all()[one][INTERVAL]
        assert (shown.value, shown.source) == ("6000", ConfigSource.GROUP_CONFIG)
