"""Real clients whose `security.protocol` differs from the listener's, for SASL or TLS: each gives up at once and
reports the reason. Apache Kafka closes such connections without an error: clients retry until their timeout, and report
only that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from pybroker import Broker
from tests.security import python_clients
from tests.security.kit import ROOT, create_topics, jaas, login, password_of, port_of, secure_broker, until
from tests.security.test_clients import GROUP, HERE, TOPIC, outcomes_of
from tests.support.certificates import Authority
from tests.support.java import compiled, java_command
from tests.support.kafka_tools import ToolError, run_tool
from tests.support.maven import TOOLS, jars

WORDS = "set security.protocol=SASL_PLAINTEXT"
PLAIN_AT_TLS = "set security.protocol=SASL_SSL"
REFUSED_TOPIC = "TopicAuthorizationFailedError"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with secure_broker() as broker:
        create_topics(login(broker, ROOT), TOPIC)
        yield broker


def test_confluent_kafka_without_login(broker: Broker) -> None:
    produced, consumed = python_clients.confluent(broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")
    assert produced == "TOPIC_AUTHORIZATION_FAILED"
    assert consumed in {"SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}


def test_kafka_python_without_login(broker: Broker) -> None:
    produced, consumed = python_clients.kafka_python(broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")
    assert produced == REFUSED_TOPIC
    assert consumed in {"SaslAuthenticationFailedError", REFUSED_TOPIC}


def test_aiokafka_without_login(broker: Broker) -> None:
    outcomes = python_clients.aiokafka_client(broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")
    assert outcomes == (REFUSED_TOPIC, REFUSED_TOPIC)


def test_java_without_login_and_with_tls(broker: Broker) -> None:
    source = HERE / "java" / "SaslClient.java"
    command = java_command(compiled(source, jars(TOOLS)), "SaslClient")
    (produced, consumed), tls = outcomes_of(command, broker.bootstrap, GROUP, ["PLAINTEXT", "SSL"])
    assert produced == "TopicAuthorizationException"
    assert consumed in {"SaslAuthenticationException", "TopicAuthorizationException"}
    assert tls == ("SslAuthenticationException", "SslAuthenticationException")
    plaintext = f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}"
    assert outcomes_of(command, plaintext, GROUP, ["SSL"]) == [tls]


def test_tools_without_login(broker: Broker) -> None:
    for tool, arguments, words in (
        ("kafka-topics", ["--create", "--topic", "new"], WORDS),
        # This client does not report the text of the error.
        ("kafka-consumer-groups", ["--describe", "--group", GROUP], "SaslAuthenticationException"),
    ):
        try:
            said = run_tool(tool, ["--bootstrap-server", broker.bootstrap, *arguments])
        except ToolError as error:
            said = str(error)
        assert words in said


def test_confluent_kafka_with_tls(broker: Broker) -> None:
    for listener in ("SASL", "PLAINTEXT"):
        bootstrap = f"127.0.0.1:{port_of(broker, listener)}"
        assert python_clients.confluent(bootstrap, TOPIC, GROUP, "SSL") == ("_SSL", "_SSL")


def test_the_log_names_the_setting_once_a_minute(broker: Broker) -> None:
    """The log has one line, however often clients reconnect and however many share an address."""
    for _ in range(10):
        python_clients.kafka_python(broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")

    def said() -> list[str]:
        return [line for line in broker.log_path.read_text().splitlines() if WORDS in line and "api key" in line]

    until(said)
    lines = said()
    stamps = [line[1:17] for line in lines]
    assert len(set(stamps)) == len(stamps), lines


# Plaintext at a listener with TLS -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """SSL, and LOGIN with SASL_SSL."""
    settings = {
        "listeners": "SSL://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,LOGIN:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(Authority(tmp_path_factory.mktemp("authority")).identity("broker")),
        "listener.name.login.plain.sasl.jaas.config": jaas([ROOT]),
    }
    with Broker(settings) as broker:
        yield broker


def test_confluent_kafka_without_tls(tls_broker: Broker) -> None:
    produced, consumed = python_clients.confluent(tls_broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")
    assert produced == "TOPIC_AUTHORIZATION_FAILED"
    assert consumed in {"SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": tls_broker.bootstrap, "log_level": 0})
    (creation,) = admin.create_topics([confluent_kafka.admin.NewTopic("new", 1, 1)]).values()
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        creation.result(python_clients.SECONDS)
    assert "This listener speaks TLS: set security.protocol=SSL." in str(refused.value)


def test_confluent_kafka_that_would_send_its_password_as_it_is(tls_broker: Broker) -> None:
    """The client reports which setting is wrong, before it has sent the password."""
    said: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port_of(tls_broker, 'LOGIN')}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ROOT,
            "sasl.password": password_of(ROOT),
            "error_cb": lambda error: said.append(error.str()),
            "log_level": 0,
        }
    )

    def told() -> bool:
        producer.poll(0.1)
        return any(PLAIN_AT_TLS in words for words in said)

    until(told)


def test_kafka_python_and_aiokafka_without_tls(tls_broker: Broker) -> None:
    produced, consumed = python_clients.kafka_python(tls_broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")
    assert produced == REFUSED_TOPIC
    assert consumed in {"SaslAuthenticationFailedError", REFUSED_TOPIC}
    outcomes = python_clients.aiokafka_client(tls_broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")
    assert outcomes == (REFUSED_TOPIC, REFUSED_TOPIC)


def test_java_and_kafkas_tools_without_tls(tls_broker: Broker, tmp_path: Path) -> None:
    command = java_command(compiled(HERE / "java" / "SaslClient.java", jars(TOOLS)), "SaslClient")
    ((produced, consumed),) = outcomes_of(command, tls_broker.bootstrap, GROUP, ["PLAINTEXT"])
    assert produced == "TopicAuthorizationException"
    assert consumed in {"SaslAuthenticationException", "TopicAuthorizationException"}
    settings = tmp_path / "client.properties"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ROOT}" '
    login += f'password="{password_of(ROOT)}";'
    settings.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    for listener, more, words in (
        ("SSL", [], "This listener speaks TLS: set security.protocol=SSL."),
        ("LOGIN", ["--command-config", str(settings)], PLAIN_AT_TLS),
    ):
        bootstrap = f"127.0.0.1:{port_of(tls_broker, listener)}"
        with pytest.raises(ToolError) as refused:
            run_tool("kafka-topics", ["--bootstrap-server", bootstrap, *more, "--create", "--topic", "new"])
        assert words in str(refused.value)
