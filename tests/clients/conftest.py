"""One running instance of each client library for the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.aiokafka_client import Aiokafka
from tests.clients.api import Client
from tests.clients.confluent import Confluent
from tests.clients.driver import FranzClient, JavaClient, KafkajsClient, SaramaClient
from tests.clients.kafka_python import KafkaPython
from tests.support.brokers import BrokerProcess

CLIENTS: dict[str, Callable[[str], Client]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
    "java": JavaClient,
    "franz-go": FranzClient,
    "sarama": SaramaClient,
    "kafkajs": KafkajsClient,
}


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Client]:
    """Each client in turn, connected to the shared broker."""
    instance = CLIENTS[request.param](broker.bootstrap)
    yield instance
    instance.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    _names.append(request.node.name)
    safe = "".join(letter if letter.isalnum() else "-" for letter in request.node.originalname)
    return f"{safe}-{len(_names)}"


_names: list[str] = []
