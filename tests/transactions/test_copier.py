"""Kafka's TransactionalMessageCopier copies records in transactions while the broker is killed repeatedly: a consumer
of committed records reads each record once, in order."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.client import blocking
from tests.conftest import StartBroker
from tests.groups.kit import create_topic
from tests.support.brokers import BrokerProcess
from tests.support.java import java_command, running
from tests.support.maven import TOOLS, jars
from tests.transactions.test_straight_path import await_read

ID, TRANSACTION = "copier", 750
GIVE_UP_S = 600.0
"""A time limit that only failures reach."""


def filled(bootstrap: str, records: int) -> str:
    """Create a topic with this many records."""
    topic = create_topic(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(records):
        producer.produce(topic, str(number))
        producer.poll(0)
    assert producer.flush(GIVE_UP_S) == 0
    return topic


@contextmanager
def copying(bootstrap: str, source: str, target: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    arguments = ["--input-topic", source, "--input-partition", "0", "--output-topic", target]
    arguments += ["--broker-list", bootstrap, "--transaction-size", str(TRANSACTION)]
    arguments += ["--transactional-id", ID, "--consumer-group", "copiers", "--use-group-metadata"]
    command = java_command(f"{jars(TOOLS)}/*", "org.apache.kafka.tools.TransactionalMessageCopier", arguments)
    with running(command, output) as copier:
        yield copier


def copied(output: Path) -> int:
    """Return how many committed records the current copier reports."""
    done = 0
    for line in output.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            done = max(done, int(json.loads(line).get("totalProcessed", 0)))
    return done


def copy(broker: BrokerProcess, folder: Path, records: int, *, broker_deaths: int, copier_deaths: int) -> str:
    """Copy the records and return the target topic. Deaths are spread over the copied records, not over time."""
    source, target = filled(broker.bootstrap, records), create_topic(broker.bootstrap, 1)
    deaths = sorted(
        [((number + 1) * records // (broker_deaths + 1), "broker") for number in range(broker_deaths)]
        + [((2 * number + 1) * records // (2 * copier_deaths), "copier") for number in range(copier_deaths)]
    )
    give_up = time.monotonic() + GIVE_UP_S
    before, life = 0, 0
    while True:
        output = folder / f"copier-{life}.txt"
        output.touch()
        with copying(broker.bootstrap, source, target, output) as copier:
            while copier.poll() is None:
                assert time.monotonic() < give_up, output.read_text()[-3000:]
                if deaths and before + copied(output) >= deaths[0][0]:
                    _, who = deaths.pop(0)
                    if who == "copier":
                        break
                    broker.restart(crash=True)
                time.sleep(0.05)
            else:
                assert copier.returncode == 0, output.read_text()[-3000:]
                return target
        # The next copier requests its position before it initializes its producer: it would wait for the offsets of the
        # open transaction (KIP-447) until that times out.
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            admin.terminate_transaction(ID)
        before += copied(output)
        life += 1


@pytest.mark.timeout(2 * GIVE_UP_S)
@pytest.mark.checklist("E7", "E10", "E11")
def test_a_copy_outlives_the_broker_and_the_copier(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    target = copy(broker, tmp_path, 7_500, broker_deaths=1, copier_deaths=1)
    await_read(broker.bootstrap, target, [str(number) for number in range(7_500)])


@pytest.mark.slow
@pytest.mark.parametrize("run", range(5))
def test_a_long_copy_outlives_them_again_and_again(start_broker: StartBroker, tmp_path: Path, run: int) -> None:
    broker = start_broker()
    target = copy(broker, tmp_path, 100_000, broker_deaths=6 + run, copier_deaths=2)
    await_read(broker.bootstrap, target, [str(number) for number in range(100_000)])
