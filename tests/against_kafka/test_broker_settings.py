"""Changes of broker settings: every dynamic setting of both brokers, each operation, invalid values, and names of
brokers and listeners. docs/clients.md lists the differences that are not compared here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from pybroker.config import BROKER_SETTINGS, ConfigType, Scope
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.configs.test_against_kafka import ELSEWHERE, OTHER_SCOPE, OURS

BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
CLUSTER, ONE = "", "1"
"""The resource name for all brokers, and that of the broker on each side."""

SHARED = {name: key for name, key in BROKER_SETTINGS.items() if name not in OURS - ELSEWHERE}
DYNAMIC = {name: key for name, key in SHARED.items() if key.scope is not Scope.READ_ONLY}
FIXED = [
    name for name, key in SHARED.items() if key.scope is Scope.READ_ONLY and name not in {*OTHER_SCOPE, *ELSEWHERE}
]

INTEGERS = ("1", "0", "-1", "-2", "2", "99", "x", "", "1.5", " 2 ", "+2", "0x10", None)
VALUES: Mapping[ConfigType, tuple[str | None, ...]] = {
    ConfigType.SHORT: (*INTEGERS, "32768"),
    ConfigType.INT: (*INTEGERS, "2147483647", "2147483648"),
    ConfigType.LONG: (*INTEGERS, "9223372036854775807", "9223372036854775808"),
    ConfigType.DOUBLE: ("1", "0", "-1", "0.5", "1.1", "x", "", None),
    ConfigType.BOOLEAN: ("true", "false", "TRUE", "yes", "", " true", None),
    ConfigType.STRING: ("x", "", " ", "none", "producer", "zstd", "required", "CreateTime", "createtime", None),
    ConfigType.LIST: ("delete,compact", "compact,compact", "delete,x", "delete,,compact", "", "TLSv1.2", None),
    ConfigType.PASSWORD: ("x", "", None),
}


class UncomparedValues(NamedTuple):
    """Values that are not compared, and why."""

    values: tuple[str | None, ...]
    why: str


_NO_TIERED = "only Kafka compares settings of tiered storage, which pybroker does not have"
_ANY_LISTENER = "pybroker also takes it for all listeners"
_ANY = tuple(value for values in VALUES.values() for value in values)
LEFT = {
    "min.insync.replicas": UncomparedValues(_ANY, "Kafka has eligible leader replicas, a single pybroker one replica"),
    "log.cleaner.io.max.bytes.per.second": UncomparedValues(("0", "-1", "0.5"), "the cleaner would never do anything"),
    "log.flush.interval.ms": UncomparedValues(("-1", "-2"), "flush.ms of a topic refuses them too"),
    "log.retention.ms": UncomparedValues(("-2",), "retention.ms of a topic refuses it too"),
    "log.local.retention.ms": UncomparedValues(("-1", "9223372036854775807"), _NO_TIERED),
    "log.remote.copy.lag.ms": UncomparedValues(("9223372036854775807",), _NO_TIERED),
    "ssl.enabled.protocols": UncomparedValues(
        ("delete,compact", "delete,x", "", "x"), "Kafka looks at them when the next client connects"
    ),
    **{
        name: UncomparedValues(
            ("x", "", " ", "none", "producer", "zstd", "required", "CreateTime", "createtime"), _ANY_LISTENER
        )
        for name in (
            "ssl.key.password",
            "ssl.keystore.certificate.chain",
            "ssl.keystore.key",
            "ssl.keystore.location",
            "ssl.keystore.password",
            "ssl.truststore.certificates",
            "ssl.truststore.location",
            "ssl.truststore.password",
        )
    },
}

Change = tuple[str, int, str | None]


def altering(resource: str, *changes: Change, validate: bool = True) -> m.IncrementalAlterConfigsRequest:
    return m.IncrementalAlterConfigsRequest(resources=[of(resource, *changes)], validate_only=validate)


def of(resource: str, *changes: Change) -> m.IncrementalAlterConfigsRequest_AlterConfigsResource:
    rows = [
        m.IncrementalAlterConfigsRequest_AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return m.IncrementalAlterConfigsRequest_AlterConfigsResource(
        resource_type=BROKER, resource_name=resource, configs=rows
    )


def replacing(resource: str, *values: tuple[str, str | None], validate: bool = True) -> m.AlterConfigsRequest:
    rows = [m.AlterConfigsRequest_AlterableConfig(name=key, value=value) for key, value in values]
    one = m.AlterConfigsRequest_AlterConfigsResource(resource_type=BROKER, resource_name=resource, configs=rows)
    return m.AlterConfigsRequest(resources=[one], validate_only=validate)


def described(resource: str, *names: str) -> m.DescribeConfigsRequest:
    one = m.DescribeConfigsRequest_DescribeConfigsResource(
        resource_type=BROKER, resource_name=resource, configuration_keys=list(names)
    )
    return m.DescribeConfigsRequest(resources=[one])


def values(side: Side, name: str) -> None:
    for key in DYNAMIC.values():
        left = LEFT.get(key.name, UncomparedValues((), "")).values
        for value in VALUES[key.type]:
            if value not in left:
                for resource in (CLUSTER, ONE):
                    side.ask(altering(resource, (key.name, SET, value)), 1)


def operations(side: Side, name: str) -> None:
    """Removals and settings of min.insync.replicas are not compared: a Kafka with eligible leader replicas refuses
    them."""
    for setting in DYNAMIC:
        for value in ("", "x"):
            for operation in (DELETE, APPEND, SUBTRACT):
                of_values = operation == APPEND and value == "x" and setting == "ssl.enabled.protocols"
                if not of_values and (setting, operation) != ("min.insync.replicas", DELETE):
                    for resource in (CLUSTER, ONE):
                        side.ask(altering(resource, (setting, operation, value)), 1)
    for fixed in FIXED:
        for operation in (SET, APPEND):
            side.ask(altering(ONE, (fixed, operation, "1")), 1)
    for key, operation, value in (
        ("log.cleanup.policy", APPEND, ","),
        ("log.cleanup.policy", APPEND, "delete"),
        ("log.cleanup.policy", APPEND, "compact,"),
        ("log.cleanup.policy", SUBTRACT, "delete"),
        ("cordoned.log.dirs", SET, "*"),
        ("cordoned.log.dirs", SET, "*,x"),
        ("cordoned.log.dirs", SET, "x,x"),
        ("max.connections.per.ip.overrides", SET, "127.0.0.1:0"),
        ("max.connections.per.ip.overrides", SET, "127.0.0.1"),
        ("max.connections.per.ip.overrides", SET, "127.0.0.1:4,"),
        ("max.connections.per.ip.overrides", APPEND, "127.0.0.1:4"),
        ("log.cleaner.dedupe.buffer.size", SET, "1048576"),
        ("log.cleaner.dedupe.buffer.size", SET, "1048577"),
        ("num.io.threads", SET, "4"),
        ("num.io.threads", SET, "3"),
        ("num.io.threads", SET, "16"),
        ("num.io.threads", SET, "17"),
    ):
        for resource in (CLUSTER, ONE):
            side.ask(altering(resource, (key, operation, value)), 1)


def several(side: Side, name: str) -> None:
    for changes in (
        [],
        [("log.roll.ms", SET, "5"), ("log.roll.ms", SET, "6")],
        [("log.roll.ms", SET, "5"), ("log.roll.ms", DELETE, None)],
        [("broker.id", SET, "1"), ("log.roll.ms", APPEND, "1")],
        [("broker.id", SET, "1"), ("log.roll.ms", SET, "x")],
        [("log.roll.ms", SET, "x"), ("no.such.config", APPEND, "x")],
        [("log.roll.ms", SET, "x"), ("broker.id", DELETE, None)],
        [("ssl.client.auth", SET, "required"), ("log.roll.ms", SET, "x")],
        [("broker.id", DELETE, None), ("log.roll.ms", SET, "5")],
        [("max.connections.per.ip", SET, "0"), ("max.connections.per.ip.overrides", SET, "127.0.0.1:4")],
        [("log.cleaner.threads", SET, "2"), ("log.cleaner.dedupe.buffer.size", SET, "2097152")],
        [("log.cleaner.threads", SET, "2"), ("log.cleaner.dedupe.buffer.size", SET, "2097154")],
    ):
        for resource in (CLUSTER, ONE):
            side.ask(altering(resource, *changes), 1)
    for resources in (
        [of(ONE, ("log.roll.ms", SET, "5")), of(ONE, ("log.roll.ms", SET, "6"))],
        [of(CLUSTER, ("log.roll.ms", SET, "5")), of(ONE, ("log.roll.ms", SET, "x"))],
        [of(CLUSTER, ("log.roll.ms", SET, "x")), of(ONE, ("log.roll.ms", SET, "5"))],
        [of(CLUSTER, ("log.roll.ms", SET, "5")), of("2", ("log.roll.ms", SET, "5"))],
        [of(ONE, ("log.roll.ms", SET, "5")), of("01", ("log.roll.ms", SET, "5"))],
    ):
        side.ask(m.IncrementalAlterConfigsRequest(resources=resources, validate_only=True), 1)


def broker_names(side: Side, name: str) -> None:
    """AlterConfigs for all brokers is not compared: a Kafka with eligible leader replicas refuses to replace them."""
    for resource in (ONE, "2", " 1", "1 ", "01", "+1", "1_0", "0x1", "1.0", "x", "-1", "2147483648"):
        side.ask(described(resource, "log.roll.ms"), 4)
        for key, value in (
            ("log.roll.ms", "5"),
            ("log.roll.ms", "0"),
            ("log.roll.ms", "x"),
            ("log.roll.ms", None),
            ("log.roll.ms", ""),
            ("broker.id", "1"),
            ("ssl.client.auth", "required"),
            ("ssl.client.auth", "x"),
            ("log.cleanup.policy", "compact"),
            ("log.cleanup.policy", ""),
        ):
            side.ask(altering(resource, (key, SET, value)), 1)
            for version in (0, 1, 2):
                side.ask(replacing(resource, (key, value)), version)


def listeners(side: Side, name: str) -> None:
    """Values are not compared: Kafka stores settings of listeners that do not exist or do not use TLS."""
    keys = ("ssl.keystore.location", "ssl.keystore.password", "ssl.cipher.suites", "max.connections", "no.such")
    for listener in ("plaintext", "PLAINTEXT", "nosuch", ""):
        for key in keys:
            for value in ("x", "", None):
                for resource in (CLUSTER, ONE):
                    for operation in (DELETE, APPEND, SUBTRACT):
                        side.ask(altering(resource, (f"listener.name.{listener}.{key}", operation, value)), 1)


def stored(side: Side, name: str) -> None:
    """Changes are stored, described and removed. A change of one broker's list after a change of the list of all
    brokers is not compared: pybroker begins with the effective list, Kafka with the default."""
    names = ("log.roll.ms", "log.cleanup.policy", "num.io.threads", "message.max.bytes")
    for request, version in (
        (altering(CLUSTER, ("log.roll.ms", SET, "604800001")), 1),
        (altering(ONE, ("log.roll.ms", SET, "604800002"), ("num.io.threads", SET, "16")), 1),
        (altering(ONE, ("num.io.threads", SET, "32"), ("message.max.bytes", SET, "x")), 1),
        (altering(ONE, ("num.io.threads", SET, "32")), 1),
        (altering(ONE, ("num.io.threads", SET, "8")), 1),
        (altering(ONE, ("num.io.threads", SET, "16")), 1),
        (altering(ONE, ("log.cleanup.policy", APPEND, "compact"), ("message.max.bytes", SET, "1048589")), 1),
        (replacing(ONE, ("message.max.bytes", "1048590")), 1),
        (altering(ONE, ("message.max.bytes", DELETE, None)), 1),
        (altering(CLUSTER, ("log.roll.ms", DELETE, None), ("log.cleanup.policy", APPEND, "compact")), 1),
        (altering(CLUSTER, ("log.cleanup.policy", DELETE, "x")), 1),
    ):
        request.validate_only = False
        side.ask(request, version)
        side.settled(name)
        for resource in (CLUSTER, ONE):
            side.ask(described(resource, *names), 4)


@pytest.mark.parametrize("story", [values, operations, several, broker_names, listeners, stored])
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
