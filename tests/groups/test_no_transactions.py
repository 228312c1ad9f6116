"""Transactions are not served yet: clients are told so at once and for good, instead of hanging."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from tests.groups.kit import WAIT_S
from tests.support.brokers import BrokerProcess
from tests.support.java import compiled, java_command
from tests.support.maven import CLIENTS, jars

PROMPT_S = 30.0
"""Far below the 60 s that both clients would keep trying."""


@pytest.mark.checklist("R20")
def test_librdkafka_gives_up_at_once(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    begin = time.monotonic()
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(WAIT_S)
    assert time.monotonic() - begin < PROMPT_S
    assert caught.value.args[0].fatal()
    assert not caught.value.args[0].retriable()


@pytest.mark.checklist("R20")
def test_the_java_client_gives_up_at_once(broker: BrokerProcess) -> None:
    class_path = compiled(Path(__file__).parent / "java" / "NoTransactions.java", jars(CLIENTS))
    run = subprocess.run(
        java_command(class_path, "NoTransactions", [broker.bootstrap]),
        capture_output=True,
        text=True,
        timeout=WAIT_S + 60,
        check=True,
    )
    millis, kind = run.stdout.split()
    assert kind == "TransactionalIdAuthorizationException"
    assert int(millis) < PROMPT_S * 1000
