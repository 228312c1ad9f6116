"""One running instance of each client library for the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.aiokafka_client import Aiokafka
from tests.clients.api import Client
from tests.clients.confluent import Confluent
from tests.clients.driver import FranzClient, JavaClient, KafkajsClient, SaramaClient
from tests.clients.kafka_python import KafkaPython
from tests.clients.releases import RELEASES
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


def connect(kind: str, bootstrap: str) -> Client:
    """Return a client of a family's newest release by the family's name, or of an older one by family and version."""
    if kind in CLIENTS:
        return CLIENTS[kind](bootstrap)
    release = next(release for release in RELEASES if str(release) == kind)
    if missing := release.missing():
        pytest.skip(missing)
    return release.connect(bootstrap)


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Client]:
    """Yield each client in turn, connected to the shared broker."""
    instance = connect(request.param, broker.bootstrap)
    yield instance
    instance.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name for one test."""
    _names.append(request.node.name)
    safe = "".join(letter if letter.isalnum() else "-" for letter in request.node.originalname)
    return f"{safe}-{len(_names)}"


_names: list[str] = []
