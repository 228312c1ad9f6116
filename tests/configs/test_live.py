"""Dynamic settings as a client sees them. Every case also holds for Apache Kafka (`--broker=kafka`)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import run_tool
from tests.topic_ids.lives import until

LIMIT_S = 120.0
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = (
    AlterConfigOpType.SET,
    AlterConfigOpType.DELETE,
    AlterConfigOpType.APPEND,
    AlterConfigOpType.SUBTRACT,
)


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[str]:
    name = f"configs-{uuid.uuid4().hex[:8]}"
    for future in admin.create_topics([NewTopic(name, 1, 1)]).values():
        future.result(LIMIT_S)

    def is_known() -> bool:  # Kafka's brokers learn of a topic a moment after the response
        with contextlib.suppress(KafkaException):
            return bool(describe(admin, TOPIC, name))
        return False

    until(is_known, f"{name} is known")
    yield name
    for future in admin.delete_topics([name]).values():
        future.result(LIMIT_S)


def describe(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    entries: dict[str, ConfigEntry] = future.result(LIMIT_S)
    return entries


def alter(
    admin: AdminClient,
    kind: ResourceType,
    name: str,
    *ops: tuple[str, AlterConfigOpType, str | None],
    validate_only: bool = False,
) -> int:
    """Change settings; return the error code, 0 for success."""
    entries = [ConfigEntry(key, value, incremental_operation=op) for key, op, value in ops]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource], validate_only=validate_only).values()
    try:
        future.result(LIMIT_S)
    except KafkaException as problem:
        code: int = problem.args[0].code()
        return code
    return 0


def source(entry: ConfigEntry) -> ConfigSource:
    """librdkafka's binding returns a number where its types promise an enum member."""
    return ConfigSource(entry.source)


def broker_id(admin: AdminClient) -> str:
    return str(next(iter(admin.list_topics(timeout=LIMIT_S).brokers)))


def test_set_and_delete(admin: AdminClient, topic: str) -> None:
    assert describe(admin, TOPIC, topic)["retention.ms"].value == "604800000"
    assert alter(admin, TOPIC, topic, ("retention.ms", SET, "1234567")) == 0
    entry = wait_for(admin, TOPIC, topic, "retention.ms", "1234567")
    assert (entry.value, source(entry), entry.is_default, entry.is_read_only) == (
        "1234567",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        False,
        False,
    )
    assert alter(admin, TOPIC, topic, ("retention.ms", DELETE, None)) == 0
    entry = wait_for(admin, TOPIC, topic, "retention.ms", "604800000")
    assert (entry.value, entry.is_default) == ("604800000", True)


def test_append_and_subtract(admin: AdminClient, topic: str) -> None:
    assert alter(admin, TOPIC, topic, ("cleanup.policy", APPEND, "compact")) == 0
    wait_for(admin, TOPIC, topic, "cleanup.policy", "delete,compact")
    assert alter(admin, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")) == 0
    wait_for(admin, TOPIC, topic, "cleanup.policy", "compact")


def test_validate_only(admin: AdminClient, topic: str) -> None:
    assert alter(admin, TOPIC, topic, ("retention.ms", SET, "1"), validate_only=True) == 0
    assert describe(admin, TOPIC, topic)["retention.ms"].value == "604800000"


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (("retention.ms", SET, "long"), KafkaError.INVALID_CONFIG),
        (("retention.ms", SET, "-2"), KafkaError.INVALID_CONFIG),
        (("segment.bytes", SET, "1000"), KafkaError.INVALID_CONFIG),
        (("cleanup.policy", SET, "shred"), KafkaError.INVALID_CONFIG),
        (("compression.type", SET, "brotli"), KafkaError.INVALID_CONFIG),
        (("min.insync.replicas", SET, "0"), KafkaError.INVALID_CONFIG),
        (("no.such.setting", SET, "1"), KafkaError.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), KafkaError.INVALID_CONFIG),
    ],
)
def test_wrong_topic_settings(
    admin: AdminClient, topic: str, op: tuple[str, AlterConfigOpType, str | None], code: int
) -> None:
    assert alter(admin, TOPIC, topic, op) == code
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert own not in {source(entry) for entry in describe(admin, TOPIC, topic).values()}


def test_unknown_topic(admin: AdminClient) -> None:
    assert alter(admin, TOPIC, "absent", ("retention.ms", SET, "1")) == KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(KafkaException) as caught:
        describe(admin, TOPIC, "absent")
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_cluster_default_and_broker(broker: BrokerProcess, admin: AdminClient, topic: str) -> None:
    me = broker_id(admin)
    try:
        set_cluster_default(broker, "--add-config", "log.segment.bytes=2000000")
        shown = wait_for(admin, TOPIC, topic, "segment.bytes", "2000000")
        assert source(shown) == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        assert alter(admin, BROKER, me, ("log.segment.bytes", SET, "3000000")) == 0
        shown = wait_for(admin, TOPIC, topic, "segment.bytes", "3000000")
        assert source(shown) == ConfigSource.DYNAMIC_BROKER_CONFIG
    finally:
        assert alter(admin, BROKER, me, ("log.segment.bytes", DELETE, None)) == 0
        set_cluster_default(broker, "--delete-config", "log.segment.bytes")
    wait_for(admin, TOPIC, topic, "segment.bytes", "1073741824")


def set_cluster_default(broker: BrokerProcess, *arguments: str) -> None:
    """Set a cluster default by Kafka's tool, because librdkafka cannot name it."""
    where = ["--bootstrap-server", broker.bootstrap, "--entity-type", "brokers", "--entity-default"]
    run_tool("kafka-configs", [*where, "--alter", *arguments])


def wait_for(admin: AdminClient, kind: ResourceType, name: str, key: str, value: str) -> ConfigEntry:
    """Wait until a setting has its effect: Kafka applies settings of brokers a moment after the response, pybroker
    before it."""
    until(lambda: describe(admin, kind, name)[key].value == value, f"{key}={value}")
    return describe(admin, kind, name)[key]


def test_read_only_broker_settings(admin: AdminClient) -> None:
    me = broker_id(admin)
    entries = describe(admin, BROKER, me)
    assert entries["num.partitions"].is_read_only
    assert not entries["log.retention.ms"].is_read_only
    assert alter(admin, BROKER, me, ("num.partitions", SET, "3")) == KafkaError.INVALID_REQUEST


def test_topics_are_created_with_settings(admin: AdminClient) -> None:
    name = f"configs-{uuid.uuid4().hex[:8]}"
    for future in admin.create_topics(
        [NewTopic(name, 1, 1, config={"retention.ms": "77", "cleanup.policy": "compact"})]
    ).values():
        future.result(LIMIT_S)
    entries = describe(admin, TOPIC, name)
    assert (entries["retention.ms"].value, entries["cleanup.policy"].value) == ("77", "compact")
    for future in admin.create_topics([NewTopic(f"{name}-2", 1, 1, config={"retention.ms": "x"})]).values():
        with pytest.raises(KafkaException) as caught:
            future.result(LIMIT_S)
        assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG
    for future in admin.delete_topics([name]).values():
        future.result(LIMIT_S)


def test_settings_survive_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("kept", 1, 1)]).values():
        future.result(LIMIT_S)
    assert alter(admin, TOPIC, "kept", ("retention.ms", SET, "99")) == 0
    set_cluster_default(broker, "--add-config", "log.retention.bytes=100000000")
    broker.restart(crash=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entries = describe(admin, TOPIC, "kept")
    assert (entries["retention.ms"].value, entries["retention.bytes"].value) == ("99", "100000000")
