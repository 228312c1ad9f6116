"""Values that native code could not apply are refused before they are stored; an acknowledged change has taken effect,
also after a restart."""

from __future__ import annotations

import socket
import uuid

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.configs.test_live import BROKER, DELETE, LIMIT_S, SET, TOPIC, alter, broker_id, describe
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import until

OVERRIDES = "max.connections.per.ip.overrides"
INVALID_CONFIG, INVALID_REQUEST = 40, 42


def admitted(broker: BrokerProcess, count: int) -> int:
    """Return how many of these connections stay open; the others are closed at once."""
    opened = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(count)]
    try:
        for each in opened:
            each.settimeout(0.5)
        return sum(1 for each in opened if not _ended(each))
    finally:
        for each in opened:
            each.close()


def _ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("hosts", ["localhost:4,192.0.2.1:200", "localhost:100,127.0.0.1:4", "[::1]:7,127.0.0.1:4"])
def test_connections_of_a_host(hosts: str, start_broker: StartBroker) -> None:
    """An address takes precedence over a name that resolves to it. Kafka's documentation has a name as its example."""
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    assert alter(admin, BROKER, broker_id(admin), (OVERRIDES, SET, hosts)) == 0
    del admin
    until(lambda: admitted(broker, 12) <= 4)
    broker.restart()
    until(lambda: admitted(broker, 12) == 4)


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        "a b:1",
        "127.0.0.1:-5",
        "127.0.0.1:99999999999",
        "127.0.0.1:99999999999999999999",
        "fe80::1%eth0:1",
        "no-such-host.invalid:1",
    ],
)
def test_overrides_that_cannot_be_obeyed(value: str, broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    number = broker_id(admin)
    assert alter(admin, BROKER, number, (OVERRIDES, SET, value)) in (INVALID_CONFIG, INVALID_REQUEST)
    assert describe(admin, BROKER, number)[OVERRIDES].value == ""


THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize("value", ["99999999999999999999:1", "0:2147483648", "0:٣"])
def test_throttled_replicas_that_cannot_be_obeyed(value: str, broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    name = f"throttled-{uuid.uuid4().hex[:8]}"
    refused = admin.create_topics([NewTopic(name, 1, 1, config={THROTTLED: value})])[name]
    assert refused.exception(LIMIT_S).args[0].code() == INVALID_CONFIG
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(LIMIT_S)
    assert alter(admin, TOPIC, name, (THROTTLED, SET, value)) == INVALID_CONFIG
    assert describe(admin, TOPIC, name)[THROTTLED].value == ""
    assert alter(admin, TOPIC, name, (THROTTLED, SET, "0:1")) == 0
    assert alter(admin, TOPIC, name, (THROTTLED, DELETE, None)) == 0
