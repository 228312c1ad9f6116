"""`pybroker adopt` takes over a data directory of a real Apache Kafka with ids, records and committed offsets. It
refuses a directory that cannot be taken over before it changes anything."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from pybroker import client as ours
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.feature_levels import HIGHEST, STREAMS_VERSION
from pybroker.broker.offline.offline_directories import read_properties_of, write_properties_of
from pybroker.client import blocking
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.cluster import until
from tests.support.kafka_tools import run_tool
from tests.topic_ids.stopped import nodes_below, topic_ids
from tests.wire.client import WireClient

PATIENCE_S = 120.0
TOPICS = {"plain": 3, "packed": 1, "compacted": 1, "empty": 2}
READ_BEFORE = 150
FOR_EVER = {"log.retention.ms": "-1"}
"""The records are from 1970, and both brokers first check retention half a minute after their start."""
SETTINGS = {
    ours.ConfigResource(ours.ConfigResourceType.GROUP, "readers/of a"): {
        "consumer.session.timeout.ms": "50000",
        "share.record.lock.duration.ms": "20000",
        "consumer.assignment.interval.ms": "2000",
        "streams.session.timeout.ms": "50000",
    },
    ours.ConfigResource(ours.ConfigResourceType.CLIENT_METRICS, "all/of them"): {
        "interval.ms": "60000",
        "match": "client_id=reader.*",
        "metrics": "org.apache.kafka.consumer.,org.apache.kafka.producer.",
    },
}
"""Settings of resources that are neither topics nor brokers."""


def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def produce(broker: BrokerProcess, topic: str, partition: int, count: int, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **settings})
    for number in range(count):
        value = (b"%s %d %06d " % (topic.encode(), partition, number)) * 20
        producer.produce(topic, value, b"k%d" % (number % 50), partition, headers={"n": str(number)}, timestamp=number)
    assert producer.flush(PATIENCE_S) == 0


def own_settings(admin: blocking.AdminClient) -> dict[ours.ConfigResource, dict[str, str | None]]:
    """Return settings that the resources of `SETTINGS` override."""
    sources = ours.ConfigSource.GROUP_CONFIG, ours.ConfigSource.CLIENT_METRICS_CONFIG
    return {
        resource: {name: entry.value for name, entry in entries.items() if entry.source in sources}
        for resource, entries in admin.describe_configs(list(SETTINGS)).all().items()
    }


def features(broker: BrokerProcess) -> dict[str, int]:
    """Return the levels of finalized features, as clients see them; 0: disabled."""
    with WireClient(broker.port) as client:
        answer = client.call(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    found = {one.name: one.max_version_level for one in answer.finalized_features}
    return {name: found.get(name, 0) for name in HIGHEST}


def digest(broker: BrokerProcess) -> dict[str, str]:
    """Return a digest of all records with offset, key, value, headers and timestamp, by partition."""
    found = {}
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "digest", "log_level": 0})
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
            consumer.assign([place])
            text, at = hashlib.sha256(), 0
            while at < end:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                assert message.error() is None
                at = (message.offset() or 0) + 1
                text.update(
                    repr(
                        (message.offset(), message.key(), message.value(), message.headers(), message.timestamp())
                    ).encode()
                )
            consumer.close()
            found[f"{topic}-{partition}"] = f"{end} {text.hexdigest()}"
    return found


def committed(broker: BrokerProcess) -> dict[int, int]:
    wanted = [ConsumerGroupTopicPartitions("readers")]
    client = admin(broker)  # keep it: its futures are cancelled when it is collected
    found = client.list_consumer_group_offsets(wanted)["readers"].result(PATIENCE_S)
    return {one.partition: one.offset for one in found.topic_partitions}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Return a data directory of Apache Kafka, and its contents."""
    broker = KafkaProcess(tmp_path_factory.mktemp("kafka"), FOR_EVER)
    broker.start()
    try:
        client = admin(broker)
        wanted = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
        wanted[2].config = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
        wanted[1].config = {"compression.type": "zstd", "retention.ms": "-1"}
        gone = NewTopic("deleted", 1, 1)
        for created in client.create_topics([*wanted, gone], request_timeout=PATIENCE_S).values():
            created.result(PATIENCE_S)
        for partition in range(3):
            produce(broker, "plain", partition, 400, **{"enable.idempotence": True})
        produce(broker, "packed", 0, 2000, **{"compression.type": "lz4", "linger.ms": 20})
        produce(broker, "compacted", 0, 500)
        produce(broker, "deleted", 0, 10)
        client.delete_topics(["deleted"])["deleted"].result(PATIENCE_S)
        # The topic is from a cluster with more brokers; a single node could never accept acks=all for it.
        strict = ConfigEntry("min.insync.replicas", "2", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "packed", incremental_configs=[strict])
        client.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as settings:
            settings.incremental_alter_configs(
                {one: [ours.AlterConfigOp(*item) for item in wanted.items()] for one, wanted in SETTINGS.items()}
            )
            # Kafka answers once the changes are in its log; its broker shows them when it has read the log.
            until(lambda: own_settings(settings) == SETTINGS)
        run_tool(
            "kafka-features", ["--bootstrap-server", broker.bootstrap, "downgrade", "--feature", "streams.version=0"]
        )
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "readers",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["plain"])
        for _ in range(READ_BEFORE):
            assert consumer.poll(PATIENCE_S) is not None
        consumer.commit(asynchronous=False)
        consumer.close()
        facts: dict[str, Any] = {
            "digest": digest(broker),
            "committed": committed(broker),
            "ids": topic_ids(broker, *TOPICS),
            "cluster": read_properties_of(broker.data_dir),
            "features": features(broker),
        }
        broker.stop()
        yield broker.data_dir, facts
    finally:
        broker.kill()


@pytest.fixture
def copy(kafka: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    shutil.copytree(kafka[0], tmp_path / "data")
    # Kafka's files are readable by every user, about which a start warns.
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "data"


@pytest.fixture
def pybroker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = PybrokerProcess(tmp_path, FOR_EVER)
    yield broker
    broker.kill()


def adopt(*arguments: object, step: str = "") -> subprocess.CompletedProcess[str]:
    module = ["tests.topic_ids.adopt_child", step] if step else ["pybroker"]
    return subprocess.run(
        [sys.executable, "-m", *module, "adopt", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.checklist("D35", "R23", 131, 138, 281, 283, 296, "X31", "C15")
def test_a_kafka_directory_is_taken_over(
    kafka: tuple[Path, dict[str, Any]], copy: Path, pybroker: BrokerProcess
) -> None:
    facts = kafka[1]
    before = contents(copy)
    shown = adopt(copy, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "dry run" in shown.stdout
    assert all(name in shown.stdout for name in TOPICS)
    assert not [line for line in shown.stdout.splitlines() if line.startswith("deleted ")], "a topic that is gone"
    told = " ".join(shown.stdout.split())
    assert "packed: min.insync.replicas=2 is not adopted: a single broker keeps" in told
    assert re.search(r"the feature metadata.version at level \d+ is not adopted: this broker does not have it", told)
    assert "-delete for removal; it is moved out of the way" in told
    assert contents(copy) == before, "a dry run changes nothing"

    done = adopt(copy, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    cluster = facts["cluster"]
    assert isinstance(cluster, dict)
    assert answer["cluster_id"] == cluster["cluster.id"]
    assert answer["node_id"] == int(cluster["node.id"])
    # The directory is as Kafka leaves it if no record was ever compacted or deleted.
    (copy / "cleaner-offset-checkpoint").write_bytes(b"")
    pybroker.start()
    told = pybroker.console.read_text().splitlines()
    assert [line for line in told if re.search(r"\] (WARN|ERROR|FATAL) ", line)] == []
    assert topic_ids(pybroker, *TOPICS) == facts["ids"]
    assert digest(pybroker) == facts["digest"]
    assert committed(pybroker) == facts["committed"]
    assert facts["features"][STREAMS_VERSION] == 0
    assert features(pybroker) == {name: min(level, HIGHEST[name]) for name, level in facts["features"].items()}
    client = admin(pybroker)
    described = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "compacted")])
    config = next(iter(described.values())).result(PATIENCE_S)
    assert config["cleanup.policy"].value == "compact"
    assert config["segment.bytes"].value == "1048576"

    with blocking.AdminClient({"bootstrap.servers": pybroker.bootstrap}) as settings:
        assert own_settings(settings) == SETTINGS

    # The group continues at its position, on old and new records; producer ids are new.
    produce(pybroker, "plain", 0, 10, **{"enable.idempotence": True})
    produce(pybroker, "packed", 0, 1, acks="all")
    consumer = Consumer(
        {"bootstrap.servers": pybroker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["plain"])
    left = 3 * 400 + 10 - READ_BEFORE
    places = set()
    for _ in range(left):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None, message.error()
        places.add((message.partition(), message.offset()))
    assert len(places) == left
    assert consumer.poll(1.0) is None
    consumer.close()
    log = next((copy / "plain-0").glob("*.log"))
    dumped = run_tool("kafka-dump-log", ["--deep-iteration", "--files", str(log)])
    assert dumped.count("| offset:") == 410
    assert "isvalid: false" not in dumped
    pybroker.restart(crash=True)
    assert topic_ids(pybroker, *TOPICS) == facts["ids"]
    pybroker.stop()
    (record,) = nodes_below(copy, znodes.AUDIT).values()
    assert json.loads(record)["command"] == "adopt"
    assert (copy / ".adopted" / "__cluster_metadata-0").is_dir()
    assert len(list((copy / ".adopted").glob("deleted-0.*-delete"))) == 1
    again = adopt(copy)
    assert again.returncode == 1
    assert "already belongs to pybroker" in again.stderr


@pytest.mark.checklist("D35", "R23")
@pytest.mark.parametrize("step", ["store", "synced", "renamed", "properties", "aside"])
def test_kill_9_at_any_step_leaves_it_adoptable(
    kafka: tuple[Path, dict[str, Any]], copy: Path, pybroker: BrokerProcess, step: str
) -> None:
    killed = adopt(copy, step=step)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = adopt(copy)
    done_before = step == "aside"
    assert again.returncode == (1 if done_before else 0), again.stderr
    pybroker.start()
    assert topic_ids(pybroker, *TOPICS) == kafka[1]["ids"]
    assert committed(pybroker) == kafka[1]["committed"]


@pytest.mark.checklist("D35", "R23")
def test_what_cannot_be_taken_over_is_left_alone(copy: Path) -> None:
    def refused(text: str, *arguments: object) -> None:
        before = contents(copy)
        done = adopt(copy, *arguments)
        assert done.returncode == 1
        assert text in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert contents(copy) == before

    refused("has no meta.properties", copy.parent)
    # A JVM uses the directory: it has a POSIX lock.
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl,sys,time; f=open(sys.argv[1],'w'); fcntl.lockf(f,fcntl.LOCK_EX); print(1,flush=True); "
            "time.sleep(100)",
            str(copy / ".lock"),
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    refused("in use by a running broker")
    holder.kill()
    holder.wait()

    log = next((copy / "plain-1").glob("*.log"))
    content = log.read_bytes()
    for magic in (1, 3):
        log.write_bytes(content[:16] + bytes([magic]) + content[17:])
        refused(f"message format {magic}")
    log.write_bytes(content)

    metadata = copy / "plain-2" / "partition.metadata"
    text = metadata.read_bytes()
    metadata.write_text(f"version: 0\ntopic_id: {Uuid.random()}")
    refused("plain-2")
    metadata.unlink()
    refused("has records but no partition.metadata")
    metadata.write_bytes(text)

    (copy / "plain-2").rename(copy.parent / "plain-2")
    refused("its directory is missing")
    (copy.parent / "plain-2").rename(copy / "plain-2")

    metadata_log = sorted((copy / "__cluster_metadata-0").glob("*.log"))[-1]
    content = metadata_log.read_bytes()
    metadata_log.write_bytes(content[:300] + b"\xff" + content[301:])
    refused("cannot read the metadata log")
    metadata_log.write_bytes(content)

    properties = read_properties_of(copy)
    assert properties is not None
    write_properties_of(copy, {**properties, "version": "2"})
    refused("has version 2")
    write_properties_of(copy, {name: value for name, value in properties.items() if name != "cluster.id"})
    refused("has no cluster id")
    write_properties_of(copy, properties)
    assert adopt(copy).returncode == 0


@pytest.mark.checklist("D35", "R23", 45, 49, 208, 211, 136)
@pytest.mark.parametrize("ids", [True, False])
def test_a_directory_of_a_zookeeper_broker(
    kafka: tuple[Path, dict[str, Any]], copy: Path, pybroker: BrokerProcess, ids: bool
) -> None:
    """meta.properties version 0, no metadata log; before Kafka 2.8 no partition.metadata either."""
    properties = read_properties_of(copy)
    assert properties is not None
    write_properties_of(
        copy, {"version": "0", "broker.id": properties["node.id"], "cluster.id": properties["cluster.id"]}
    )
    shutil.rmtree(copy / "__cluster_metadata-0")
    for path in copy.glob("*-delete"):
        shutil.rmtree(path)
    if not ids:
        for path in copy.glob("*/partition.metadata"):
            path.unlink()
    without = adopt(copy)
    assert without.returncode == 1
    assert "--topic-configs" in without.stderr
    configs = copy.parent / "configs.json"
    configs.write_text(json.dumps({"compacted": {"cleanup.policy": "compact"}}))
    done = adopt(copy, "--topic-configs", configs)
    assert done.returncode == 0, done.stderr
    pybroker.start()
    found = topic_ids(pybroker, *TOPICS)
    with_files = {name: topic_id for name, topic_id in found.items() if name != "empty" or ids}
    if ids:
        assert {name: found[name] for name in ("plain", "packed", "compacted")} == {
            name: topic_id for name, topic_id in kafka[1]["ids"].items() if name != "empty"
        }
    for name, topic_id in with_files.items():
        assert (copy / f"{name}-0" / "partition.metadata").read_text().endswith(str(topic_id))
    assert digest(pybroker) == kafka[1]["digest"]
    if ids:
        # Without: this Kafka has noted the ids in its commits, which are of other topics then; one before 2.8 has not.
        assert committed(pybroker) == kafka[1]["committed"]
