"""Raising `inter.broker.protocol.version` to 2.8 or later, by a restart and without a stop: topics get ids once,
nothing is lost, and no crash leaves it half done (KIP-516).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

import pybroker.client.blocking
from pybroker.broker.metadata import znodes
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.crash.child import TOPIC
from tests.support.wire import free_port
from tests.topic_ids.kit import batch, create, delete, fetch, metadata, produce
from tests.topic_ids.lives import until
from tests.topic_ids.stopped import before_ids, forget_history, metadata_file, nodes_below, put, topic_ids, topic_node
from tests.topic_ids.without_ids import OLD, VERSION, alter, described, hidden_ids, served, shown_ids
from tests.trouble.traffic import create as create_topic
from tests.trouble.traffic import missing, read, send
from tests.wire.client import WireClient

RECORDS = [b"record %04d" % number for number in range(100)]


@pytest.mark.checklist(49, 138, 206, 207, 208, 210, 211, 212)
@pytest.mark.parametrize("version", ["2.8-IV0", "3.9", None])
def test_by_a_restart(start_broker: StartBroker, version: str | None) -> None:
    broker = start_broker(OLD)
    names = ["new", "old", "empty"]
    create_topic(broker, "new", 2)
    create_topic(broker, "old", 1)
    create_topic(broker, "empty", 1)
    kept = {name: send(broker, name, 0, RECORDS).acknowledged for name in ("new", "old")}
    broker.stop()
    ids = hidden_ids(broker)
    # The topics include one that is older than this broker: it has neither record nor file.
    before_ids(broker, 1, "old")
    ids.pop("old")
    broker.settings.pop(VERSION)
    if version is not None:
        broker.settings[VERSION] = version
    broker.start()
    shown = topic_ids(broker, *names)
    assert {name: shown[name] for name in ("new", "empty")} == {name: ids[name] for name in ("new", "empty")}
    assert Uuid.ZERO not in shown.values()
    for name, records in kept.items():
        assert not missing(records, read(broker, name, 0))
    broker.stop()
    assert shown_ids(broker, *names) == shown
    assert nodes_below(broker.data_dir, znodes.TOPIC_IDS) == {}, "finished"
    for name in names:
        assert metadata_file(broker, name).read_text() == f"version: 0\ntopic_id: {shown[name]}"
    broker.start()
    assert topic_ids(broker, *names) == shown


@pytest.mark.checklist(49, 206, 208, 209, 210, 212, 213)
def test_without_a_stop(start_broker: StartBroker) -> None:
    broker = start_broker(OLD)
    with WireClient(broker.port) as client:
        for name in ("one", "two"):
            create(client, name, 2, version=6)
        assert produce(client, "one", batch(b"before"), version=12).error_code == 0
        without = served(broker.port)
        assert alter(broker.port, "3.9-IV0", validate_only=True).error_code == 0
        assert served(broker.port) == without, "only looked at"
        assert alter(broker.port, "3.9-IV0").error_code == 0
        until(lambda: served(broker.port)[1] == (4, 18), "every thread serves requests by id")
        assert len(served(broker.port)) == len(without) + 24
        # The connection opened before continues, by name and by id.
        ids = {topic.name: topic.topic_id for topic in metadata(client, 12, "one", "two").topics}
        assert Uuid.ZERO not in ids.values()
        assert produce(client, "one", batch(b"by name"), version=12).base_offset == 1
        assert produce(client, ids["one"], batch(b"by id")).base_offset == 2
        assert fetch(client, ids["one"]).high_watermark == 3
        made = create(client, "three").topic_id
        assert made != Uuid.ZERO
        (gone,) = delete(client, ids["two"])
        assert (gone.error_code, gone.name) == (0, "two")
        assert create(client, "two").topic_id not in ids.values(), "the name is free at once"
        entry = described(broker.port)
        assert (entry.value, entry.config_source) == ("3.9-IV0", 3)
        for lower in ("2.7", None):  # nor by removing the setting, because the file says 2.7
            answer = alter(broker.port, lower)
            assert answer.error_code == ErrorCode.INVALID_CONFIG, lower
        assert alter(broker.port, "2.8").error_code == 0
    broker.kill()
    assert shown_ids(broker, "one", "three") == {"one": ids["one"], "three": made}
    broker.start()  # with 2.7 in its file: the value that was set at run time counts
    assert served(broker.port)[1] == (4, 18)
    assert topic_ids(broker, "one") == {"one": ids["one"]}
    broker.stop()
    assert nodes_below(broker.data_dir, znodes.TOPIC_IDS) == {}


@pytest.mark.checklist(206)
def test_it_is_raised_for_all_brokers_and_by_a_name_of_kafkas(start_broker: StartBroker) -> None:
    broker = start_broker(OLD)
    assert alter(broker.port, "3.9", broker="1").error_code == ErrorCode.INVALID_REQUEST
    for version in ("2.6", "4.0", "3.9-IV7", "", "nonsense"):
        assert alter(broker.port, version).error_code == ErrorCode.INVALID_CONFIG
    assert described(broker.port).value == "2.7-IV2"
    assert served(broker.port)[1] == (4, 12)


@pytest.mark.checklist(206)
def test_a_producer_goes_on_when_its_topic_shows_its_id(start_broker: StartBroker) -> None:
    """The producer knew the topic before: if its sequences restarted, the broker would treat them as duplicates."""
    broker = start_broker(OLD)
    create_topic(broker, "numbered", 1)
    values = [b"%d" % number for number in range(500)]
    settings = {"bootstrap.servers": broker.bootstrap, "acks": "all", "metadata.max.age.ms": 20}
    with pybroker.client.blocking.Producer(settings) as producer:
        for value in values[:3]:
            producer.send("numbered", value, partition=0)
        broker.stop()
        del broker.settings[VERSION]
        broker.start()
        for value in values[3:]:
            producer.send("numbered", value, partition=0)
    assert list(read(broker, "numbered", 0).values()) == values


@pytest.mark.checklist(206, 212, 213)
def test_connected_clients_go_on(start_broker: StartBroker) -> None:
    """The clients are a librdkafka producer and a consumer in a group. They run before, during and after the change."""
    broker = start_broker(OLD)
    create_topic(broker, "busy", 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "busy",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    consumer.subscribe(["busy"])
    problems: list[str] = []
    found: set[int] = set()
    sent = 0

    def produce_some(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            producer.produce(
                "busy",
                b"%d" % sent,
                partition=sent % 3,
                on_delivery=lambda problem, _: problems.append(str(problem)) if problem else None,
            )
            sent += 1
            producer.poll(0)

    def consume_all() -> None:
        def came() -> bool:
            for message in consumer.consume(500, 0.2):
                problem = message.error()
                if problem is None:
                    found.add(int(message.value()))
                else:
                    assert not problem.fatal(), problem
            return len(found) >= sent

        def committed() -> bool:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:  # the group rebalances after a restart: the next call joins it
                came()
                return False
            return True

        until(came, "everything is read")
        until(committed, "the group takes a commit")

    produce_some(500)
    consume_all()
    raising = threading.Thread(target=lambda: problems.extend(_raise_now(broker.port)))
    raising.start()
    produce_some(2000)
    raising.join()
    until(lambda: served(broker.port)[1] == (4, 18))
    produce_some(500)
    assert producer.flush(120) == 0
    consume_all()
    # New connections use ids.
    create_topic(broker, "more", 1)
    assert not send(broker, "more", 0, RECORDS).refused
    broker.restart(crash=True)
    produce_some(500)
    assert producer.flush(120) == 0
    consume_all()
    consumer.close()
    assert problems == []
    assert found == set(range(sent))
    written = sorted(int(value) for partition in range(3) for value in read(broker, "busy", partition).values())
    assert written == list(range(sent)), "each once"


def _raise_now(port: int) -> list[str]:
    answer = alter(port, "3.9-IV0")
    return [answer.error_message] if answer.error_code else []


LIVE_STEPS = [
    "before raise is stored",
    "after raise is stored",
    "before set_broker_settings",
    "after set_broker_settings",
    "before ids shown is stored",
    "after ids shown is stored",
]


@pytest.mark.checklist(208, 210, 211, 212, "A16")
@pytest.mark.parametrize("step", LIVE_STEPS)
def test_a_crash_while_it_is_raised_without_a_stop(start_broker: StartBroker, step: str) -> None:
    broker = start_broker(OLD)
    create_topic(broker, TOPIC, 2)
    create_topic(broker, "other", 1)
    kept = send(broker, TOPIC, 0, RECORDS).acknowledged
    broker.stop()
    ids = hidden_ids(broker)
    port = free_port()
    command = [sys.executable, "-m", "tests.crash.child", str(broker.data_dir), str(port), step, f"{VERSION}=2.7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with WireClient(port) as client:
            config = m.IncrementalAlterConfigsRequest_AlterableConfig(name=VERSION, config_operation=0, value="3.9")
            resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                resource_type=4, resource_name="", configs=[config]
            )
            client.send(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert child.wait(120) == -9
    broker.start()
    raised = step != "before raise is stored"
    assert served(broker.port)[1] == ((4, 18) if raised else (4, 12))
    if not raised:
        assert alter(broker.port, "3.9").error_code == 0
    assert topic_ids(broker, TOPIC, "other") == ids
    assert not missing(kept, read(broker, TOPIC, 0))
    broker.stop()
    assert shown_ids(broker, TOPIC, "other") == ids
    broker.start()
    broker.stop()
    assert nodes_below(broker.data_dir, znodes.TOPIC_IDS) == {}


START_STEPS = [
    "before grow is stored",
    "after grow is stored",
    "before apply_partitions",
    "after apply_partitions",
    "before ids shown is stored",
    "after ids shown is stored",
]


@pytest.mark.checklist(208, 211, 212, "A16", "A19")
@pytest.mark.parametrize("step", START_STEPS)
def test_a_crash_while_a_start_raises_it(start_broker: StartBroker, step: str) -> None:
    """`grow` is the child's command that rewrites a topic node."""
    broker = start_broker(OLD)
    create_topic(broker, TOPIC, 2)
    kept = send(broker, TOPIC, 0, RECORDS).acknowledged
    broker.stop()
    ids = hidden_ids(broker)
    # One partition has no file, as in a directory from before this broker.
    metadata_file(broker, TOPIC, 1).unlink()
    command = [sys.executable, "-m", "tests.crash.child", str(broker.data_dir), str(free_port()), step, "armed"]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    broker.settings.pop(VERSION)
    broker.start()
    assert topic_ids(broker, TOPIC) == ids
    assert not missing(kept, read(broker, TOPIC, 0))
    for partition in (0, 1):
        assert metadata_file(broker, TOPIC, partition).read_text().endswith(str(ids[TOPIC]))
    broker.stop()
    assert shown_ids(broker, TOPIC) == ids
    assert nodes_below(broker.data_dir, znodes.TOPIC_IDS) == {}


@pytest.mark.checklist(45, 212)
def test_a_topic_made_anew_by_another_tool_gets_another_id(start_broker: StartBroker) -> None:
    """The file in the directory names its node's version: a node that another tool wrote is another topic."""
    broker = start_broker(OLD)
    create_topic(broker, "anew", 1)
    broker.stop()
    ids = hidden_ids(broker)
    node = topic_node(broker.data_dir, "anew")
    assert node["version"] == 2
    for file in broker.data_dir.glob("anew-*/partition.metadata"):
        file.unlink()
    record = znodes.TopicIdRecord(ids["anew"], 1).encode()  # of a node that was made long before
    put(broker.data_dir, {znodes.topic_id_path("anew"): record})
    forget_history(broker.data_dir, ids["anew"])
    broker.settings.pop(VERSION)
    broker.start()
    assert topic_ids(broker, "anew")["anew"] not in (ids["anew"], Uuid.ZERO)


@pytest.mark.checklist(206, 213)
def test_the_projects_own_client_goes_on(start_broker: StartBroker) -> None:
    """The client remembers the ids of topics: a topic that loses its id is not another topic."""
    broker = start_broker(OLD)
    create_topic(broker, "own", 1)

    async def run() -> list[bytes | None]:
        where = {"bootstrap.servers": broker.bootstrap, "metadata.max.age.ms": 500}
        found: list[bytes | None] = []
        own = pybroker.client.Consumer({**where, "group.id": "own", "auto.offset.reset": "earliest"})
        async with pybroker.client.Producer(where) as producer, own as consumer:
            consumer.subscribe(["own"])

            async def some(numbers: range) -> None:
                for number in numbers:
                    await producer.send("own", str(number))
                while len(found) < numbers.stop:
                    found.extend(record.value for record in await consumer.poll(1.0))

            await some(range(50))
            assert alter(broker.port, "3.9").error_code == 0
            await some(range(50, 150))
            await asyncio.sleep(1)  # metadata is older than its limit now
            await some(range(150, 200))
            await consumer.commit()
        return found

    async def in_time() -> list[bytes | None]:
        async with asyncio.timeout(200):
            return await run()

    assert asyncio.run(in_time()) == [b"%d" % number for number in range(200)]
