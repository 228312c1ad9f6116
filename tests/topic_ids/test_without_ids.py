"""`inter.broker.protocol.version` below 2.8: the broker's clients and its store know no topic ids (checklist 206)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer

from pybroker.broker.metadata import znodes
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import batch, create, fetch, metadata, produce, unique
from tests.topic_ids.lives import until
from tests.topic_ids.stopped import metadata_file, nodes_below, put, topic_node
from tests.topic_ids.without_ids import OLD, VERSION, alter, described, hidden_ids, served
from tests.trouble.traffic import create as create_topic
from tests.trouble.traffic import missing, read, send
from tests.wire.client import WireClient

RECORDS = [b"record %04d" % number for number in range(100)]
CAPPED = {0: (0, 12), 1: (4, 12), 3: (0, 9), 8: (1, 9), 9: (1, 9), 19: (0, 6), 20: (0, 5), 28: (0, 5), 32142: (0, 0)}
"""Key → versions that name topics by name alone."""
ABSENT = {68, 69, 75, *range(76, 80), *range(88, 94), *range(32143, 32147), 32148, 32149, *range(32150, 32155)}
"""API keys that need topic ids."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    from tests.support.brokers import PybrokerProcess

    broker = PybrokerProcess(tmp_path_factory.mktemp("old"), OLD)
    broker.start()
    yield broker
    broker.kill()


@pytest.mark.checklist(67, 206, 210, 213, "X19", "D28")
def test_api_versions_end_where_ids_begin(old: BrokerProcess, broker: BrokerProcess) -> None:
    full, without = served(broker.port), served(old.port)
    assert without == {key: CAPPED.get(key, versions) for key, versions in full.items() if key not in ABSENT}
    assert set(full) - set(without) == ABSENT


@pytest.mark.checklist(206)
@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (m.ProduceRequest(acks=-1, timeout_ms=1000), 13),
        (m.FetchRequest(max_wait_ms=0, min_bytes=0), 13),
        (m.FetchRequest(max_wait_ms=0, min_bytes=0), 18),
        (m.MetadataRequest(topics=[]), 10),
        (m.OffsetFetchRequest(), 10),
        (m.CreateTopicsRequest(timeout_ms=1000), 7),
        (m.DeleteTopicsRequest(timeout_ms=1000), 6),
        (m.DescribeTopicPartitionsRequest(), 0),
        (m.ListTopicsRequest(), 1),
        (m.TruncateTopicsRequest(timeout_ms=1000), 0),
        (m.ListIngestsRequest(), 0),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, int) else str(one),
)
def test_what_is_not_advertised_is_refused(old: BrokerProcess, request_: object, version: int) -> None:
    """The connection is closed, as for every unknown version, whichever plane serves the key."""
    with WireClient(old.port) as client:
        client.send(request_, version)
        assert client.is_closed_by_peer()


@pytest.mark.checklist(206, 213)
def test_topics_live_by_name(old: BrokerProcess) -> None:
    name = unique("by-name")
    with WireClient(old.port) as client:
        assert create(client, name, 2, version=6).topic_id == Uuid.ZERO
        for version in range(10):
            (topic,) = metadata(client, version, name).topics
            assert (topic.error_code, topic.topic_id) == (0, Uuid.ZERO)
        assert produce(client, name, batch(b"one"), version=12).error_code == 0
        row = fetch(client, name, version=12)
        assert row.high_watermark == 1
        listed = client.call(m.ListTopicsRequest(), 0).topic_listing
        assert name in [one.name for one in listed]


@pytest.mark.checklist(206)
def test_librdkafka_works(old: BrokerProcess) -> None:
    name = unique("clients")
    create_topic(old, name, 2)
    sent = send(old, name, 1, RECORDS)
    assert not sent.refused
    assert not missing(sent.acknowledged, read(old, name, 1))
    producer = Producer({"bootstrap.servers": old.bootstrap, "enable.idempotence": True})
    for value in RECORDS:
        producer.produce(name, value, partition=0)
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": old.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    found: list[Message] = []

    def all_came() -> bool:
        found.extend(message for message in consumer.consume(len(RECORDS), 0.5) if message.error() is None)
        return len(found) >= len(RECORDS)

    until(all_came)
    assert len(found) == len(RECORDS)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.checklist(206)
def test_the_setting_is_shown(old: BrokerProcess, broker: BrokerProcess) -> None:
    entry = described(old.port)
    assert (entry.value, entry.read_only, entry.config_source) == ("2.7-IV2", False, 4)
    assert described(broker.port).value == "3.9-IV0"


@pytest.mark.checklist(45, 206)
def test_the_store_shows_version_2_and_keeps_the_id_beside(start_broker: StartBroker) -> None:
    broker = start_broker(OLD)
    create_topic(broker, "plain", 2)
    sent = send(broker, "plain", 1, RECORDS)
    with WireClient(broker.port) as client:
        grow = m.CreatePartitionsRequest_CreatePartitionsTopic(name="plain", count=3, assignments=None)
        (grown,) = client.call(m.CreatePartitionsRequest(topics=[grow], timeout_ms=30_000), 3).results
        assert grown.error_code == 0
    broker.stop()
    node = topic_node(broker.data_dir, "plain")
    assert list(node) == ["version", "partitions", "adding_replicas", "removing_replicas"]
    assert (node["version"], len(node["partitions"])) == (2, 3)
    ids = hidden_ids(broker)
    for partition in range(3):
        assert metadata_file(broker, "plain", partition).read_text() == f"version: 0\ntopic_id: {ids['plain']}"
    for crash in (False, True):  # starts change nothing
        broker.start()
        assert not missing(sent.acknowledged, read(broker, "plain", 1))
        broker.kill() if crash else broker.stop()
        assert topic_node(broker.data_dir, "plain") == node
        assert hidden_ids(broker)["plain"] == ids["plain"]


@pytest.mark.checklist(45, 206, 207, 212)
def test_topics_of_an_old_broker_stay_old(start_broker: StartBroker) -> None:
    """Nodes and directories that never had an id: they are served, and their nodes are not rewritten."""
    broker = start_broker(OLD)
    create_topic(broker, "ancient", 2)
    sent = send(broker, "ancient", 0, RECORDS)
    broker.stop()
    partitions = topic_node(broker.data_dir, "ancient")["partitions"]
    node = b'{"version":1,"partitions":{"0":[1],"1":[1]}}'
    assert partitions == {"0": [1], "1": [1]}
    put(broker.data_dir, {znodes.topic_path("ancient"): node})

    for file in broker.data_dir.glob("ancient-*/partition.metadata"):
        file.unlink()
    broker.start()
    assert not missing(sent.acknowledged, read(broker, "ancient", 0))
    broker.stop()
    assert nodes_below(broker.data_dir, znodes.TOPICS)[znodes.topic_path("ancient")] == node
    ids = hidden_ids(broker)
    assert metadata_file(broker, "ancient").read_text().endswith(str(ids["ancient"]))
    broker.start()
    broker.stop()
    assert hidden_ids(broker) == ids


@pytest.mark.checklist(206, "X19")
def test_lowering_is_refused(start_broker: StartBroker) -> None:
    broker = start_broker()
    create_topic(broker, "has-an-id", 1)
    for version in ("2.7", "2.8-IV9"):
        answer = alter(broker.port, version)
        assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "it can only be raised" in alter(broker.port, "2.7").error_message
    broker.stop()
    before = nodes_below(broker.data_dir, znodes.TOPICS)
    broker.settings |= OLD
    done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if VERSION in line]
    assert "'has-an-id' has a topic id" in line
    assert "to 2.8 or later" in line
    assert nodes_below(broker.data_dir, znodes.TOPICS) == before
    del broker.settings[VERSION]
    broker.start()
