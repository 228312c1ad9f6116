"""Real clients whose `security.protocol` is not the listener's: each gives up at once, and says so.

Apache Kafka ends such connections without a word: clients try again until their time is up, and say only that.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker import Broker
from tests.security import python_clients
from tests.security.kit import ROOT, create_topics, login, port_of, secure_broker, until
from tests.security.test_clients import GROUP, HERE, TOPIC, outcomes_of
from tests.support.java import compiled, java_command
from tests.support.kafka_tools import ToolError, run_tool
from tests.support.maven import TOOLS, jars

WORDS = "set security.protocol=SASL_PLAINTEXT"
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
        # This one leaves out what it was told.
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
    """However often clients come again, and however many there are at an address."""
    for _ in range(10):
        python_clients.kafka_python(broker.bootstrap, TOPIC, GROUP, "PLAINTEXT")

    def said() -> list[str]:
        return [line for line in broker.log_path.read_text().splitlines() if WORDS in line and "api key" in line]

    until(said)
    lines = said()
    stamps = [line[1:17] for line in lines]
    assert len(set(stamps)) == len(stamps), lines
