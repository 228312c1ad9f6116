"""Transactions are not served yet: every client family is told so at once and for good, instead of trying again for a
minute. Counted, not timed: a client that does not take the answer for final asks again.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, create_topic
from tests.support.go import built
from tests.support.java import compiled, java_command
from tests.support.maven import CLIENTS, jars
from tests.support.wire import free_port

HERE = Path(__file__).parent
GIVE_UP_S = 200.0
"""A failure only waits so long; longer than any family tries again."""


def java(bootstrap: str, topic: str) -> str:
    classes = compiled(HERE / "java" / "NoTransactions.java", jars(CLIENTS))
    command = java_command(classes, "NoTransactions", [bootstrap])
    return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_S, check=True).stdout


def librdkafka(bootstrap: str, topic: str) -> str:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(WAIT_S)
    assert caught.value.args[0].fatal()
    assert not caught.value.args[0].retriable()
    name: str = caught.value.args[0].name()
    return name


def kafka_python(bootstrap: str, topic: str) -> str:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
    try:
        producer.init_transactions()
    except Exception as problem:
        return type(problem).__name__
    finally:
        producer.close(timeout=1)
    return "began"


def aiokafka(bootstrap: str, topic: str) -> str:
    async def begin() -> str:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
        try:
            await asyncio.wait_for(producer.start(), GIVE_UP_S)
        except Exception as problem:
            return type(problem).__name__
        finally:
            await producer.stop()
        return "began"

    return asyncio.run(begin())


def go(family: str) -> Callable[[str, str], str]:
    def run(bootstrap: str, topic: str) -> str:
        command = [str(built(HERE / "transactions")), family, bootstrap, topic]
        return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_S, check=True).stdout

    return run


FAMILIES: dict[str, tuple[Callable[[str, str], str], str]] = {
    "java": (java, "TransactionalIdAuthorizationException"),
    "librdkafka": (librdkafka, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "kafka-python": (kafka_python, "TransactionalIdAuthorizationFailedError"),
    "aiokafka": (aiokafka, "TransactionalIdAuthorizationFailed"),
    "franz-go": (go("franz"), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "sarama": (go("sarama"), "Transactional ID authorization failed"),
}
"""Family → how it begins a transaction, and what its user reads."""


@pytest.mark.checklist("R20")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_transaction_is_refused_once(start_broker: StartBroker, family: str) -> None:
    port = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{port}"})
    begin, error = FAMILIES[family]
    assert error in begin(broker.bootstrap, create_topic(broker.bootstrap, 1))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    asked = {name: int(times) for name, times in re.findall(r'pybroker_requests_total\{api="(\w+)"\} (\d+)', text)}
    assert (asked["FindCoordinator"], asked["InitProducerId"], asked["Produce"]) == (1, 1, 0)
