"""A broker that is down, does not respond, or requires other settings: clients report the cause and end in time."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pybroker
from pybroker.client import (
    AdminClient,
    AuthenticationError,
    BrokerConnectionError,
    Consumer,
    ErrorCode,
    KafkaError,
    KafkaTimeoutError,
    NewTopic,
    Producer,
    TopicPartition,
    UnknownTopicError,
)
from pybroker.protocol import messages as m
from pybroker.testing.child_processes import pause
from tests.client.conftest import SecureKafka
from tests.client.fake_broker import FakeBroker
from tests.client.test_consumer import reader, until, values
from tests.client.test_producer import ScriptedBroker
from tests.support.certificates import Authority

LIMIT_S = 120.0
"""Time limit for conditions that need no action of the test."""
LONG_S = 55.0
"""A close that waits for the group or for deliveries takes 60 or 120 seconds; a close that gives up takes five."""


@pytest.fixture
def broker() -> Iterator[pybroker.Broker]:
    with pybroker.Broker({"auto.create.topics.enable": "false"}) as started:
        yield started
        if started.running:
            os.kill(started.pid, signal.SIGCONT)


def go_away(broker: pybroker.Broker, how: str) -> None:
    if how == "killed":
        broker.kill()
    else:
        pause(broker.pid)


async def repeated(step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a call until it succeeds: a machine may pause for longer than the client's short time limit."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                return await step()
            except KafkaTimeoutError:
                continue


async def topic(broker: pybroker.Broker, name: str) -> None:
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_consumer_closes_although_the_broker_is_away(
    broker: pybroker.Broker, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    await topic(broker, "t")
    async with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        await producer.send("t", "a")
    consumer = reader(broker.bootstrap, group_id="g")
    consumer.subscribe(["t"])
    assert await values(consumer, 1) == ["a"]
    go_away(broker, how)
    begin = time.monotonic()
    await consumer.close()
    assert time.monotonic() - begin < LONG_S
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("No broker of group g accepted the last commit or the leave request" in each for each in told)
    if how == "killed":
        assert any(f"cannot connect to {broker.bootstrap}: Connection refused" in each for each in told)


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_producer_closes_although_the_broker_is_away(
    broker: pybroker.Broker, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    await topic(broker, "t")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    await producer.send("t", "a")
    go_away(broker, how)
    waiting = await producer.enqueue("t", "b")
    await producer.enqueue("t", "c")
    begin = time.monotonic()
    words = "closed before the record was written"
    if how == "killed":
        words += f": cannot connect to {broker.bootstrap}: Connection refused"
    with pytest.raises(KafkaTimeoutError, match=words):
        await producer.close()
    assert time.monotonic() - begin < LONG_S
    with pytest.raises(KafkaTimeoutError, match=words):
        await waiting
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("closed before 2 records were written" in each for each in told)


async def test_a_time_limit_of_ones_own_ends_a_close(broker: pybroker.Broker) -> None:
    await topic(broker, "t")
    consumer, producer = reader(broker.bootstrap, group_id="g"), Producer({"bootstrap.servers": broker.bootstrap})
    consumer.subscribe(["t"])
    await producer.send("t", "a")
    assert await values(consumer, 1) == ["a"]
    go_away(broker, "frozen")
    waiting = await producer.enqueue("t", "b")
    async with asyncio.timeout(LONG_S):
        await consumer.close(0.1)
        await producer.close(0.1)
    with pytest.raises(KafkaTimeoutError, match="closed"):
        await waiting


async def test_a_close_lasts_as_long_as_the_broker_answers() -> None:
    """Each response comes late, and together they take longer than the silence that ends a close."""
    async with ScriptedBroker() as slow:
        config = {"bootstrap.servers": slow.bootstrap, "max.in.flight.requests.per.connection": 1, "batch.size": 1000}
        producer = Producer({**config, "linger.ms": 0, "max.request.size": 1000})
        await producer.send("t", "a")
        slow.delay_s = 0.8
        for _ in range(10):
            await producer.enqueue("t", "b" * 800)
        await producer.close()
        assert len(slow.asked("ProduceRequest")) == 11


async def test_a_commit_ends_in_time_and_names_the_cause(broker: pybroker.Broker) -> None:
    await topic(broker, "t")
    async with reader(broker.bootstrap, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"])
        await until(lambda: bool(consumer.assignment()), consumer)
        go_away(broker, "killed")
        async with asyncio.timeout(LONG_S):
            with pytest.raises((BrokerConnectionError, KafkaTimeoutError), match="Connection refused"):
                await consumer.commit({TopicPartition("t", 0): 0}, timeout_s=5)


async def test_the_end_of_a_group_tells_its_listener_although_the_broker_is_away(broker: pybroker.Broker) -> None:
    from pybroker.client import RebalanceListener

    await topic(broker, "t")
    told = []

    class Listener(RebalanceListener):
        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            told.append(partitions)
            await consumer.commit()

    consumer = reader(broker.bootstrap, group_id="g")
    consumer.subscribe(["t"], listener=Listener())
    await until(lambda: bool(consumer.assignment()), consumer)
    go_away(broker, "killed")
    async with asyncio.timeout(LONG_S):
        await consumer.close()
    assert told == [{TopicPartition("t", 0)}]


async def test_a_listener_may_commit_when_its_consumer_closes(broker: pybroker.Broker) -> None:
    from pybroker.client import RebalanceListener

    await topic(broker, "t")
    async with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        await producer.send("t", "a")

    class Listener(RebalanceListener):
        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            await consumer.commit()

    async with reader(broker.bootstrap, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"], listener=Listener())
        assert await values(consumer, 1) == ["a"]
    async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        assert (await admin.list_consumer_group_offsets("g"))[TopicPartition("t", 0)].offset == 1


ASYNC = """
import asyncio, sys
from pybroker.client import Consumer, Producer

async def main():
    settings = {"bootstrap.servers": sys.argv[1]}
    async with Producer(settings) as producer, Consumer({**settings, "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(0.1)
        await producer.send("t", "a")
        print("ready", flush=True)
        sys.stdin.readline()
        if sys.argv[2] == "write":
            await producer.send("t", "b")
        async for record in consumer:
            pass

asyncio.run(main())
"""

BLOCKING = """
import sys
from pybroker.client.blocking import Consumer, Producer

settings = {"bootstrap.servers": sys.argv[1]}
with Producer(settings) as producer, Consumer({**settings, "group.id": "g"}) as consumer:
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    producer.send("t", "a")
    print("ready", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "write":
        producer.send("t", "b")
    for record in consumer:
        pass
"""


@pytest.mark.parametrize("face", [ASYNC, BLOCKING], ids=["async", "blocking"])
@pytest.mark.parametrize("what", ["read", "write"])
async def test_the_first_interrupt_ends_a_program(broker: pybroker.Broker, face: str, what: str) -> None:
    await topic(broker, "t")
    child = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs on this loop
        [sys.executable, "-c", face, broker.bootstrap, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        broker.kill()
        child.stdin.write("go on\n")
        child.stdin.flush()
        await asyncio.sleep(1.0)  # the consumer is now in a call that waits for the broker
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, words = child.communicate(timeout=100)
    finally:
        child.kill()
        child.wait()
    assert time.monotonic() - begin < LONG_S
    assert child.returncode != 0
    assert "KeyboardInterrupt" in words
    assert f"cannot connect to {broker.bootstrap}: Connection refused" in words


async def test_an_interrupt_of_the_first_connection_is_all_that_is_told(
    broker: pybroker.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    go_away(broker, "frozen")
    consumer = reader(broker.bootstrap)
    starting = asyncio.create_task(consumer.start())
    await asyncio.sleep(0.2)  # by then the client waits for the response to its first request
    starting.cancel()
    await asyncio.wait([starting])
    await consumer.close()
    del consumer, starting
    gc.collect()
    assert "never retrieved" not in caplog.text


# A login is missing ---------------------------------------------------------------------------------------------------

WITH_LOGIN = {
    "listeners": "LOGIN://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


async def _refused(bootstrap: str, words: str = r"security\.protocol=SASL_", **config: Any) -> None:
    """Check that each client reports at once which setting is missing."""
    settings = {"bootstrap.servers": bootstrap, **{name.replace("_", "."): value for name, value in config.items()}}
    async with asyncio.timeout(LONG_S):
        async with AdminClient(settings) as admin:
            with pytest.raises(AuthenticationError, match=words) as refused:
                await admin.list_topics()
            assert not refused.value.retriable
        async with Producer(settings) as producer:
            with pytest.raises(AuthenticationError, match=words):
                await producer.send("t", "a")
        async with Consumer({**settings, "group.id": "g"}) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(AuthenticationError, match=words):
                await consumer.poll(60.0)


async def test_a_client_without_login_is_told_to_log_in() -> None:
    with pybroker.Broker(WITH_LOGIN) as broker:
        await _refused(broker.bootstrap)


@pytest.mark.parametrize("listener", ["LOGIN", "PLAINTEXT"])
async def test_a_client_with_tls_is_told_that_there_is_none(listener: str) -> None:
    with pybroker.Broker(WITH_LOGIN) as broker:
        port = next(port for name, _, port in broker.endpoints if name == listener)
        settings = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SSL"}
        words = (
            r"TLS with .* failed: .*handshake failure.*; if that listener has no TLS, set security\.protocol=PLAINTEXT"
        )
        async with asyncio.timeout(LONG_S), AdminClient(settings) as admin:
            with pytest.raises(BrokerConnectionError, match=words):
                await admin.list_topics()


async def test_what_is_wrong_with_tls_is_told(tmp_path: Path) -> None:
    """The test connects a client without TLS, and a client that trusts another authority."""
    tls = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(Authority(tmp_path).identity("broker")),
    }
    with pybroker.Broker(tls) as broker:
        words = r"set security\.protocol=SASL_PLAINTEXT, .*, or SSL or SASL_SSL if that listener has TLS"
        await _refused(broker.bootstrap, words)
        settings = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SSL"}
        words = r"verify failed: .*; set ssl\.trust"
        async with asyncio.timeout(LONG_S), AdminClient(settings) as admin:
            with pytest.raises(BrokerConnectionError, match=words):
                await admin.list_topics()


async def test_a_listener_with_tls_that_says_nothing_is_told() -> None:
    """The listener closes such connections without a response, like Apache Kafka's."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        words = r"was lost: .* before it sent anything; if that listener has TLS, set security\.protocol=SSL"
        async with asyncio.timeout(LONG_S), AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}) as admin:
            with pytest.raises(BrokerConnectionError, match=words):
                await admin.list_topics()


async def test_apache_kafka_hangs_up_on_a_client_without_login(secure_kafka: SecureKafka) -> None:
    await _refused(secure_kafka.sasl_tls, security_protocol="SSL", ssl_ca_location=str(secure_kafka.certificate))


async def test_a_code_that_asks_for_a_login_is_understood() -> None:
    def refuse(*_: object) -> Any:
        return m.MetadataResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    async with FakeBroker({"MetadataRequest": refuse}, {3: (0, 13), 18: (0, 4)}) as fake:
        await _refused(fake.bootstrap)


async def test_a_broker_that_goes_away_on_the_first_request_once_is_asked_again() -> None:
    """The closed connection may be caused by a restart, so the client tries again."""
    answers: list[Any] = [ConnectionError()]
    async with (
        FakeBroker({"MetadataRequest": lambda *_: answers.pop() if answers else fake.metadata()}) as fake,
        AdminClient({"bootstrap.servers": fake.bootstrap}) as admin,
    ):
        assert (await admin.describe_cluster()).cluster_id == "fake"


# A topic is missing ---------------------------------------------------------------------------------------------------


async def test_a_consumer_says_that_its_topic_does_not_exist_and_reads_it_once_it_does(
    broker: pybroker.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with reader(broker.bootstrap, group_id="g") as consumer:
        consumer.subscribe(["nope"])
        await until(lambda: "topic nope does not exist; waiting for it" in caplog.text, consumer)
        await topic(broker, "nope")
        async with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            await producer.send("nope", "a")
        assert await values(consumer, 1) == ["a"]
    assert caplog.text.count("topic nope does not exist") == 1


async def test_partitions_assigned_by_hand_that_do_not_exist(
    broker: pybroker.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await topic(broker, "t")
    async with reader(broker.bootstrap) as consumer:
        consumer.assign([TopicPartition("nope", 0), TopicPartition("t", 7)])
        await until(lambda: "topic nope does not exist; waiting for it" in caplog.text, consumer)
        await until(lambda: "topic t has partitions 0 to 0; partition 7 does not exist" in caplog.text, consumer)


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_missing_topic_is_an_error_where_that_is_asked_for(broker: pybroker.Broker, by_hand: bool) -> None:
    async with reader(broker.bootstrap, group_id="g", on_topic_missing="fail") as consumer:
        if by_hand:
            consumer.assign([TopicPartition("nope", 0)])
        else:
            consumer.subscribe(["nope"])
        with pytest.raises(UnknownTopicError, match="topic nope does not exist"):
            await consumer.poll(60.0)


async def test_a_position_in_a_topic_that_does_not_exist(broker: pybroker.Broker) -> None:
    async with reader(broker.bootstrap) as consumer, asyncio.timeout(LONG_S):
        consumer.assign([TopicPartition("nope", 0)])
        with pytest.raises(UnknownTopicError, match="topic nope does not exist"):
            await consumer.position(TopicPartition("nope", 0))


async def test_offsets_of_a_topic_that_does_not_exist(broker: pybroker.Broker) -> None:
    async with reader(broker.bootstrap) as consumer, asyncio.timeout(LONG_S):
        with pytest.raises(UnknownTopicError, match="topic nope does not exist"):
            await consumer.end_offsets([TopicPartition("nope", 0)])


async def test_a_send_to_a_topic_that_does_not_exist_names_it(
    broker: pybroker.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer({"bootstrap.servers": broker.bootstrap, "max.block.ms": 5_000}) as producer:
        with pytest.raises(UnknownTopicError, match=r"topic nope does not exist .*max\.block\.ms=5000") as refused:
            await producer.send("nope", "a")
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(refused.value)
    assert "topic nope does not exist; waiting for it" in caplog.text


async def test_a_send_while_the_broker_is_away_names_topic_and_cause(broker: pybroker.Broker) -> None:
    await topic(broker, "t")
    async with Producer({"bootstrap.servers": broker.bootstrap, "max.block.ms": 5_000}) as producer:
        await producer.send("t", "a")
        broker.kill()
        with pytest.raises(KafkaTimeoutError, match=r"topic u .*max\.block\.ms=5000: .*Connection refused"):
            await producer.send("u", "a")


# Time-outs name their cause -------------------------------------------------------------------------------------------


async def test_a_record_that_is_not_written_in_time_says_why(broker: pybroker.Broker) -> None:
    await topic(broker, "t")
    config = {"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": 5_000}
    async with Producer(config) as producer:
        await producer.send("t", "a")
        broker.kill()
        with pytest.raises(KafkaTimeoutError, match=r"t-0 .* delivery\.timeout\.ms=5000: .*Connection refused"):
            await producer.send("t", "b")
    async with ScriptedBroker(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000) as scripted:
        settings = {"bootstrap.servers": scripted.bootstrap, "delivery.timeout.ms": 3_000, "retry.backoff.ms": 5}
        async with Producer(settings) as producer:
            with pytest.raises(KafkaTimeoutError, match=r"delivery\.timeout\.ms=3000: NOT_ENOUGH_REPLICAS"):
                await producer.send("t", "b")


async def test_a_call_that_is_not_answered_in_time_names_itself_and_the_limit(broker: pybroker.Broker) -> None:
    await topic(broker, "t")
    limited = {"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": 1_000}
    within = r"no response( from the controller)? within default\.api\.timeout\.ms=1000"
    async with AdminClient(limited) as admin, Consumer({**limited, "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])

        async def both_are_connected() -> None:
            await until(lambda: bool(consumer.assignment()), consumer)
            await admin.list_topics()

        await repeated(both_are_connected)
        go_away(broker, "frozen")
        with pytest.raises(KafkaTimeoutError, match=f"group g: {within}"):
            await consumer.commit({TopicPartition("t", 0): 0})
        with pytest.raises(KafkaTimeoutError, match=f"CreateTopics: {within}"):
            await admin.create_topics([NewTopic("u", 1, 1)])
        with pytest.raises(KafkaTimeoutError, match=r"group g: no response within 0\.5 s"):
            await consumer.commit({TopicPartition("t", 0): 0}, timeout_s=0.5)


async def test_a_broker_that_goes_and_comes_is_mentioned_once(
    broker: pybroker.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pybroker.client")
    await topic(broker, "t")
    async with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        await producer.send("t", "a")
        broker.kill()
        waiting = asyncio.create_task(producer.send("t", "b"))
        async with asyncio.timeout(LIMIT_S):
            while "Connection refused; retrying" not in caplog.text:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
        await asyncio.to_thread(broker.start)
        assert (await waiting).offset == 1
    assert caplog.text.count("Connection refused; retrying") == 1
    assert f"{broker.bootstrap} responds again after" in caplog.text


def test_errors_say_their_name_and_whether_trying_again_helps() -> None:
    assert str(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "for t-0")) == "NOT_ENOUGH_REPLICAS (retriable): for t-0"
    assert str(KafkaError(ErrorCode.INVALID_RECORD)) == "INVALID_RECORD (not retriable)"
    assert str(KafkaError(12345)) == "error 12345 (not retriable)"
    assert pybroker.client.ErrorCode is ErrorCode
