"""Random and corrupted frames sent to a running broker: it does not crash, its memory does not grow, and other clients
continue."""

from __future__ import annotations

import contextlib
import random
import socket
import time

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conftest import StartBroker
from tests.hostile.attack import attack
from tests.hostile.corpus import TOPIC
from tests.support.brokers import BrokerProcess
from tests.support.delivered import offset_and_value
from tests.support.memory import resident_mib

GROWTH_MAX_MIB = 96
"""Limit of buffers and sessions together; a leak of one frame in ten would exceed it."""


def honest_round_trip(broker: BrokerProcess, value: bytes) -> None:
    """Write one record to a topic that only this function uses, and read it back."""
    failures: list[object] = []
    offsets: list[int] = []

    def delivered(error: object, message: Message) -> None:
        failures.extend([error] if error else [])
        offsets.append(offset_and_value(message)[0])

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    producer.produce("honest", value, on_delivery=delivered)
    assert producer.flush(120) == 0
    assert not failures
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "honest", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("honest", 0, offsets[0])])
        end = time.monotonic() + 120
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                assert message.value() == value
                return
        raise AssertionError("the record did not come back")
    finally:
        consumer.close()


def _run(start_broker: StartBroker, rounds: int, frames: int, seed: int) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("honest", 1, 1), NewTopic(TOPIC, 2, 1)]).values():
        future.result(120)
    honest_round_trip(broker, b"before")
    attack(broker.port, frames, seed)  # buffers and caches grow to their final size
    settled = resident_mib(broker.pid)
    for number in range(1, rounds):
        attack(broker.port, frames, seed + number)
        assert broker.running, f"seed {seed + number}"
        honest_round_trip(broker, b"round %d" % number)
    grown = resident_mib(broker.pid) - settled
    assert grown < GROWTH_MAX_MIB, f"{grown:.0f} MiB more after {rounds - 1} further rounds of {frames} frames"
    log = broker.console.read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    assert "panicked" not in log


def test_thousands_of_hostile_frames(start_broker: StartBroker) -> None:
    """The normal suite sends a limited number, the same each time; the slow suite uses another seed each time."""
    _run(start_broker, rounds=3, frames=4_000, seed=1)


@pytest.mark.slow
def test_a_million_hostile_frames(start_broker: StartBroker) -> None:
    """This sends as many as a night allows, from another seed each time."""
    _run(start_broker, rounds=20, frames=50_000, seed=random.randrange(2**31))


TLS_ALERT = bytes.fromhex("15 0303 0002 02 28")
"""Fatal: handshake_failure."""


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
        pytest.param(bytes.fromhex("16030100c8010000c40303") + bytes(200), id="tls"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="ssh"),
        pytest.param(b"\x00" * 64, id="zeros"),
        pytest.param(b"\xff" * 64, id="ones"),
    ],
)
def test_another_protocol_on_the_port_is_closed(broker: BrokerProcess, greeting: bytes) -> None:
    """The connection is closed at once; no client waits. With TLS the close alert is sent, so that no reset overtakes
    it."""
    said = b""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=120) as connection:
        connection.sendall(greeting)
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(1024):
                said += more
    assert said in ((b"", TLS_ALERT) if greeting.startswith(b"\x16") else (b"",))
    assert broker.running
