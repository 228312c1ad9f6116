"""Results of requests that alter settings, and their error codes."""

from __future__ import annotations

import pytest

from pybroker.broker.admin.config_changes import (
    ConfigOp,
    OpType,
    ResourceOps,
    ResourceType,
    broker_changes,
    check_broker_name,
    check_request,
    logger_changes,
    topic_changes,
)
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

INVALID_REQUEST, INVALID_CONFIG = int(ErrorCode.INVALID_REQUEST), int(ErrorCode.INVALID_CONFIG)
SET, DELETE, APPEND, SUBTRACT = OpType.SET, OpType.DELETE, OpType.APPEND, OpType.SUBTRACT


def topic(*ops: tuple[str, int, str | None], replace: bool = False) -> ResourceOps:
    return ResourceOps(ResourceType.TOPIC, "t", tuple(ConfigOp(*op) for op in ops), replace)


def broker(*ops: tuple[str, int, str | None], name: str = "1") -> ResourceOps:
    return ResourceOps(ResourceType.BROKER, name, tuple(ConfigOp(*op) for op in ops))


@pytest.mark.parametrize(
    ("ops", "current", "changes"),
    [
        ([("retention.ms", SET, "5")], {}, {"retention.ms": "5"}),
        ([("retention.ms", SET, "1d")], {}, {"retention.ms": "86400000"}),
        ([("retention.ms", DELETE, None)], {"retention.ms": "5"}, {"retention.ms": None}),
        ([("no.such.setting", DELETE, None)], {}, {"no.such.setting": None}),
        ([("cleanup.policy", APPEND, "compact")], {}, {"cleanup.policy": "delete,compact"}),
        ([("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "compact"}, {"cleanup.policy": "compact"}),
        (
            [("cleanup.policy", SUBTRACT, "delete")],
            {"cleanup.policy": "compact,delete"},
            {"cleanup.policy": "compact"},
        ),
        ([("cleanup.policy", SUBTRACT, "compact")], {}, {"cleanup.policy": "delete"}),
        (
            [("leader.replication.throttled.replicas", APPEND, "0:1,1:1")],
            {"leader.replication.throttled.replicas": "0:1"},
            {"leader.replication.throttled.replicas": "0:1,1:1"},
        ),
        ([("remote.storage.enable", SET, "false")], {}, {}),
    ],
)
def test_topic_changes(
    ops: list[tuple[str, int, str | None]], current: dict[str, str], changes: dict[str, str | None]
) -> None:
    assert topic_changes(topic(*ops), current, BrokerConfig()) == changes


@pytest.mark.parametrize(
    ("ops", "complaint"),
    [
        ([("retention.mz", SET, "1")], "unknown topic setting retention.mz; did you mean retention.ms?"),
        ([("retention.ms", SET, "x")], "retention.ms=x: expected a whole number"),
        ([("retention.ms", APPEND, "1")], "Can't APPEND to key retention.ms because its type is not LIST."),
        ([("cleanup.policy", APPEND, "shred")], "cleanup.policy=delete,shred: may only contain compact, delete"),
        (
            [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")],
            "min.compaction.lag.ms=9 must not be above max.compaction.lag.ms=8",
        ),
    ],
)
def test_wrong_topic_changes(ops: list[tuple[str, int, str | None]], complaint: str) -> None:
    with pytest.raises(KafkaError) as caught:
        topic_changes(topic(*ops), {}, BrokerConfig())
    assert caught.value.code == INVALID_CONFIG
    assert (caught.value.message or "").startswith(complaint)


def test_replacing_forgets_what_is_not_named() -> None:
    """The current lag would contradict the new one, but AlterConfigs removes it."""
    resource = topic(("max.compaction.lag.ms", SET, "8"), replace=True)
    assert topic_changes(resource, {"min.compaction.lag.ms": "9"}, BrokerConfig()) == {"max.compaction.lag.ms": "8"}


@pytest.mark.parametrize(
    ("ops", "current", "changes"),
    [
        ([("log.retention.ms", SET, "5")], {}, {"log.retention.ms": "5"}),
        ([("log.cleanup.policy", APPEND, "compact")], {}, {"log.cleanup.policy": "delete,compact"}),
        ([("log.retention.ms", DELETE, None)], {"log.retention.ms": "5"}, {"log.retention.ms": None}),
        (
            [("left.by.another.version", DELETE, None)],
            {"left.by.another.version": "5"},
            {"left.by.another.version": None},
        ),
    ],
)
def test_broker_changes(
    ops: list[tuple[str, int, str | None]], current: dict[str, str], changes: dict[str, str | None]
) -> None:
    assert broker_changes(broker(*ops), current, BrokerConfig()) == changes


@pytest.mark.parametrize(
    ("ops", "code"),
    [
        ([("num.partitions", SET, "5")], INVALID_REQUEST),
        ([("listeners", SET, "PLAINTEXT://:1")], INVALID_REQUEST),
        ([("log.retention.mz", SET, "5")], INVALID_CONFIG),
        ([("log.retention.ms", SET, "x")], INVALID_REQUEST),
        ([("max.connections.per.ip.overrides", SET, "x")], INVALID_REQUEST),
        ([("request.timeout.ms", SET, "1")], INVALID_REQUEST),
        ([("ssl.principal.mapping.rules", SET, "DEFAULT")], INVALID_REQUEST),
        ([("min.insync.replicas", SET, "2")], INVALID_CONFIG),
        ([("min.insync.replicas", SUBTRACT, "1")], INVALID_CONFIG),
        ([("num.partitions", APPEND, "5")], INVALID_CONFIG),
        ([("max.connections.per.ip.overrides", APPEND, "x")], INVALID_CONFIG),
        ([("log.retention.mz", SUBTRACT, "5")], INVALID_CONFIG),
        ([("log.retention.ms", SET, "x"), ("log.roll.ms", APPEND, "5")], INVALID_CONFIG),
        ([("log.cleanup.policy", SET, "compact,compact")], INVALID_REQUEST),
        ([("log.cleanup.policy", APPEND, "")], INVALID_REQUEST),
    ],
)
def test_wrong_broker_changes(ops: list[tuple[str, int, str | None]], code: int) -> None:
    with pytest.raises(KafkaError) as caught:
        broker_changes(broker(*ops), {}, BrokerConfig())
    assert caught.value.code == code


LEVELS = ("DEBUG", "INFO")


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (("pybroker.x", SET, "LOUD"), INVALID_CONFIG),
        (("nobody", SET, "INFO"), INVALID_CONFIG),
        (("root", DELETE, None), INVALID_REQUEST),
        (("pybroker.x", APPEND, "INFO"), INVALID_REQUEST),
    ],
)
def test_wrong_logger_changes(op: tuple[str, int, str | None], code: int) -> None:
    resource = ResourceOps(ResourceType.BROKER_LOGGER, "1", (ConfigOp(*op),))
    with pytest.raises(KafkaError) as caught:
        logger_changes(resource, LEVELS, {"root", "pybroker.x"}.__contains__)
    assert caught.value.code == code


def test_logger_changes() -> None:
    ops = (ConfigOp("root", SET, "DEBUG"), ConfigOp("pybroker.x", DELETE, None))
    resource = ResourceOps(ResourceType.BROKER_LOGGER, "1", ops)
    assert logger_changes(resource, LEVELS, {"root", "pybroker.x"}.__contains__) == {
        "root": "DEBUG",
        "pybroker.x": None,
    }


def test_shapes_of_requests() -> None:
    good = topic(("retention.ms", SET, "1"))
    requests = check_request(
        [
            good,
            broker(("a", SET, "1"), ("a", DELETE, None)),
            broker(("a", SET, None), name="2"),
            broker(("a", 4, "1"), name="3"),
            ResourceOps(99, "x", ()),
        ]
    )
    results = list(requests)
    assert results[0] is None
    assert [problem.code for problem in results[1:] if problem is not None] == [INVALID_REQUEST] * 4
    assert [problem is not None for problem in check_request([good, good])] == [True, True]


@pytest.mark.parametrize(
    ("name", "fine"), [("", True), ("1", True), ("01", True), ("2", False), ("one", False), (" 1", False)]
)
def test_names_of_brokers(name: str, fine: bool) -> None:
    if fine:
        check_broker_name(name, 1)
        return
    with pytest.raises(KafkaError) as caught:
        check_broker_name(name, 1)
    assert caught.value.code == INVALID_REQUEST
