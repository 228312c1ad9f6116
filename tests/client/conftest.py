"""The client library runs against the product and against Apache Kafka; each is started once for all tests."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker.client import AdminClient, NewTopic, Uuid
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.java import java_tool
from tests.support.wire import free_port

FOR_EVER = {"log.retention.ms": "-1"}
"""Some records are old, and retention could remove them at any moment."""


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """pybroker as the broker of the tests."""
    broker = PybrokerProcess(tmp_path_factory.mktemp("client-pybroker"), FOR_EVER)
    broker.start()
    yield broker
    broker.kill()


class SecureKafka(NamedTuple):
    """Addresses of Apache Kafka's listeners with TLS, and the certificate to trust."""

    tls: str
    sasl_tls: str
    certificate: Path


@pytest.fixture(scope="session")
def kafka_and_listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, SecureKafka]]:
    """Apache Kafka with a listener in the clear, one with TLS, and one with TLS and SASL."""
    broker = KafkaProcess(tmp_path_factory.mktemp("client-kafka"), FOR_EVER)
    tls, sasl_tls = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    keys, certificate, password = broker.folder / "keys.p12", broker.folder / "certificate.pem", "keystore"
    keytool = [java_tool("keytool"), "-keystore", str(keys), "-storepass", password, "-alias", "kafka"]
    made = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    subprocess.run([*keytool, *made], check=True, capture_output=True, timeout=120)
    told = subprocess.run([*keytool, "-exportcert", "-rfc"], check=True, capture_output=True, timeout=120)
    certificate.write_bytes(told.stdout)
    listeners = f"PLAINTEXT://{broker.bootstrap},TLS://{tls},LOGIN://{sasl_tls}"
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="hidden";'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    broker.settings.update(
        {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "ssl.keystore.location": str(keys),
            "ssl.keystore.password": password,
            "ssl.keystore.type": "PKCS12",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": plain,
            "listener.name.login.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.login.scram-sha-512.sasl.jaas.config": scram,
        }
    )
    broker.start()
    yield broker, SecureKafka(tls, sasl_tls, certificate)
    broker.kill()


@pytest.fixture(scope="session")
def apache_kafka(kafka_and_listeners: tuple[BrokerProcess, SecureKafka]) -> BrokerProcess:
    """Apache Kafka as the broker of the tests."""
    return kafka_and_listeners[0]


@pytest.fixture(scope="session")
def secure_kafka(kafka_and_listeners: tuple[BrokerProcess, SecureKafka]) -> SecureKafka:
    """The Kafka broker's TLS listeners."""
    return kafka_and_listeners[1]


@pytest.fixture(params=["pybroker", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Yield `bootstrap.servers` of each broker in turn."""
    broker: BrokerProcess = request.getfixturevalue({"pybroker": "product", "kafka": "apache_kafka"}[request.param])
    return broker.bootstrap


@pytest.fixture
def patient_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients close without a short time limit; other tests check how soon they give up on a silent broker."""
    for name in ("SILENCE_S", "INTERRUPTED_SILENCE_S", "INTERRUPTED_MAX_S"):
        monkeypatch.setattr(f"pybroker.client.connection.client_lifecycle.{name}", 100.0)


@pytest.fixture
async def admin(bootstrap: str) -> AsyncIterator[AdminClient]:
    """An AdminClient for one test."""
    async with AdminClient({"bootstrap.servers": bootstrap}) as client:
        yield client


_made = 0


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups of one test."""
    global _made  # noqa: PLW0603  # counts over all files
    _made += 1
    return f"{request.node.originalname.removeprefix('test_').replace('_', '-')[:60]}-{_made}"


async def recreate(admin: AdminClient, topic: str, partitions: int = 1) -> Uuid:
    """Delete a topic and create it again; return the new id. Apache Kafka may need a moment until the name is free."""
    await admin.delete_topics([topic])
    while True:
        try:
            new = (await admin.create_topics([NewTopic(topic, partitions, 1)]))[topic].topic_id
        except Exception as error:
            if getattr(error, "code", None) != 36:
                raise
        else:
            await known(admin, topic, new)
            return new


async def known(admin: AdminClient, topic: str, topic_id: Uuid | None = None) -> None:
    """Wait until the broker knows a topic that was just created: Apache Kafka answers a little earlier."""
    async with asyncio.timeout(120):
        while True:
            listed = await admin.list_topics()
            if topic in listed and topic_id in (None, listed[topic].topic_id):
                return
            await asyncio.sleep(0.01)


async def forgotten(admin: AdminClient, topic: str) -> None:
    """Wait until the broker no longer knows a topic that was just deleted."""
    async with asyncio.timeout(120):
        while topic in await admin.list_topics():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.01)
