"""Kafka's own command-line tools, unchanged, against the broker and against its files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.clients.api import ALL_ACKS, COMPRESSIONS
from tests.clients.confluent import Confluent
from tests.clients.expectations import Polling, records
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.kafka_tools import ToolError, run_tool
from tests.topic_ids.lives import until


def on(broker: BrokerProcess, name: str, *arguments: str) -> str:
    """Return the output of a tool that uses the broker."""
    return run_tool(name, ["--bootstrap-server", broker.bootstrap, *arguments])


def test_topics_are_created_shown_extended_and_deleted(broker: BrokerProcess, topic: str) -> None:
    """kafka-topics: --create, --describe with the topic id, --alter --partitions, --list, --delete."""
    on(broker, "kafka-topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=12345")
    shown = on(broker, "kafka-topics", "--describe", "--topic", topic)
    head = re.search(r"TopicId: (\S+)\s+PartitionCount: (\d+)\s+ReplicationFactor: (\d+)\s+Configs: (\S+)", shown)
    assert head, shown
    assert len(head[1]) == 22
    assert (head[2], head[3]) == ("3", str(broker.size))
    assert "retention.ms=12345" in head[4].split(",")
    rows = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", shown)
    assert [row[0] for row in rows] == ["0", "1", "2"]
    for _, leader, replicas, in_sync in rows:
        assert leader == replicas.split(",")[0]
        assert len(replicas.split(",")) == broker.size
        assert set(in_sync.split(",")) == set(replicas.split(","))

    on(broker, "kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in on(broker, "kafka-topics", "--describe", "--topic", topic)
    assert topic in on(broker, "kafka-topics", "--list").split()
    on(broker, "kafka-topics", "--delete", "--topic", topic)
    assert topic not in on(broker, "kafka-topics", "--list").split()
    with pytest.raises(ToolError, match="does not exist"):
        on(broker, "kafka-topics", "--describe", "--topic", topic)


def test_configs_are_changed_and_their_sources_named(broker: BrokerProcess, topic: str) -> None:
    """kafka-configs for topics and for brokers: add, describe with synonyms, delete."""
    entity = ("--entity-type", "topics", "--entity-name", topic)
    on(broker, "kafka-topics", "--create", "--topic", topic, "--partitions", "1")
    on(
        broker,
        "kafka-configs",
        "--alter",
        *entity,
        "--add-config",
        "max.message.bytes=7777,cleanup.policy=[compact,delete]",
    )
    shown = on(broker, "kafka-configs", "--describe", *entity)
    assert re.search(
        r"max\.message\.bytes=7777 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:max\.message\.bytes=7777", shown
    )
    assert "DEFAULT_CONFIG:message.max.bytes=1048588" in shown
    assert "cleanup.policy=compact,delete" in shown
    everything = on(broker, "kafka-configs", "--describe", "--all", *entity)
    assert "segment.bytes=1073741824" in everything
    on(broker, "kafka-configs", "--alter", *entity, "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in on(broker, "kafka-configs", "--describe", *entity)
    with pytest.raises(ToolError, match=r"(?i)segment\.bytes"):
        on(broker, "kafka-configs", "--alter", *entity, "--add-config", "segment.bytes=-5")

    default = ("--entity-type", "brokers", "--entity-default")
    on(broker, "kafka-configs", "--alter", *default, "--add-config", "log.retention.ms=86400000")
    assert "log.retention.ms=86400000" in on(broker, "kafka-configs", "--describe", *default)
    on(broker, "kafka-configs", "--alter", *default, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in on(broker, "kafka-configs", "--describe", *default)


def test_offsets_are_looked_up_and_records_deleted(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """kafka-get-offsets (latest, earliest, by timestamp, max timestamp) before and after kafka-delete-records."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 2)
    client.produce(topic, records(100, partitions=2), ALL_ACKS[3])

    def offsets(time: str) -> list[str]:
        return on(broker, "kafka-get-offsets", "--topic", topic, "--time", time).split()

    assert offsets("latest") == [f"{topic}:0:50", f"{topic}:1:50"]
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("0") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert len(offsets("max-timestamp")) == 2
    request = tmp_path / "delete.json"
    request.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 1, "offset": 20}]}))
    assert "low_watermark: 20" in on(broker, "kafka-delete-records", "--offset-json-file", str(request))
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:20"]
    request.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 1, "offset": 51}]}))
    assert "OffsetOutOfRange" in on(broker, "kafka-delete-records", "--offset-json-file", str(request))


def test_groups_are_listed_described_reset_and_deleted(broker: BrokerProcess, topic: str) -> None:
    """kafka-consumer-groups over the life of a group."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 2)
    client.produce(topic, records(100, partitions=2))
    group = f"{topic}-group"
    member = client.join(group, topic)
    polling = Polling(member)
    polling.until_received(100)
    member.commit({0: 10, 1: 20})

    def described() -> dict[str, list[str]]:
        rows = [
            line.split() for line in on(broker, "kafka-consumer-groups", "--describe", "--group", group).splitlines()
        ]
        return {row[2]: row for row in rows if len(row) > 5 and row[0] == group}

    assert {partition: row[3:6] for partition, row in described().items()} == {
        "0": ["10", "50", "40"],
        "1": ["20", "50", "30"],
    }
    state = on(broker, "kafka-consumer-groups", "--describe", "--group", group, "--state")
    assert "Stable" in state
    assert "range" in state
    assert group in on(broker, "kafka-consumer-groups", "--list").split()
    members = on(broker, "kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose")
    assert f"{topic}(0,1)" in members or f"{topic}:0,1" in members

    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    refused = on(broker, "kafka-consumer-groups", *reset)
    assert "inactive" in refused
    member.close()

    def has_no_members() -> bool:
        return "Empty" in on(broker, "kafka-consumer-groups", "--describe", "--group", group, "--state")

    until(has_no_members, "the member's leave has arrived")
    on(broker, "kafka-consumer-groups", *reset)
    assert {row[3] for row in described().values()} == {"0"}
    on(broker, "kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
    assert described() == {}
    on(broker, "kafka-consumer-groups", "--delete", "--group", group)
    assert group not in on(broker, "kafka-consumer-groups", "--list").split()


def test_brokers_and_leaders_where_there_is_nothing_to_elect(broker: BrokerProcess, topic: str) -> None:
    """kafka-leader-election and kafka-cluster run to their end, also with a single node."""
    on(broker, "kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    for kind in ("preferred", "unclean"):
        elected = on(broker, "kafka-leader-election", "--election-type", kind, "--topic", topic, "--partition", "1")
        assert elected.strip() == f"Valid replica already elected for partitions {topic}-1"
    assert "Error" not in on(broker, "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    address = ["--bootstrap-server", broker.bootstrap]
    ports = {line.split()[2] for line in run_tool("kafka-cluster", ["list-endpoints", *address]).strip().splitlines()}
    assert broker.bootstrap.rpartition(":")[2] in ports
    with pytest.raises(ToolError, match="BrokerIdNotRegisteredException"):
        run_tool("kafka-cluster", ["unregister", *address, "--id", "777"])


def test_log_dirs_are_described(broker: BrokerProcess, topic: str) -> None:
    """kafka-log-dirs names the directory, and every partition with its size."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 2)
    client.produce(topic, records(40, partitions=2))
    lines = on(broker, "kafka-log-dirs", "--describe", "--topic-list", topic).splitlines()
    (directory,) = json.loads(lines[-1])["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert Path(directory["logDir"]).resolve() == broker.data_dir.resolve()
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    on_disk = {
        f"{topic}-{number}": sum(file.stat().st_size for file in (broker.data_dir / f"{topic}-{number}").glob("*.log"))
        for number in range(2)
    }
    assert sizes == on_disk


def _dumped(folder: Path, *options: str) -> str:
    files = sorted(
        [*folder.glob("*.log"), *folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")]
    )
    return run_tool("kafka-dump-log", ["--files", ",".join(map(str, files)), *options])


def test_the_dump_tool_reads_every_file_of_a_log(start_broker: StartBroker, topic: str) -> None:
    """The log has several segments with all codecs, their indexes and a producer snapshot. The tool reports no error
    and lists every record."""
    broker = start_broker({"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"})
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 1)
    expected = []
    for round_number in range(8):
        for compression in COMPRESSIONS:
            batch = records(600, partitions=1, tag=f"{compression}-{round_number}")
            client.produce(topic, batch, ALL_ACKS[3], compression)
            expected.extend(batch)
    broker.stop()  # a stop writes the producer snapshot
    folder = broker.data_dir / f"{topic}-0"
    assert len(list(folder.glob("*.log"))) > 1, "the log must have rolled for this test to mean anything"
    for index in folder.glob("*.index"):
        assert index.with_suffix(".timeindex").exists()
    dump = _dumped(folder, "--print-data-log", "--deep-iteration")
    for complaint in (
        "Mismatches in",
        "Non-consecutive offsets in",
        "Found timestamp mismatch",
        "CORRUPT",
        "Exception",
    ):
        assert complaint not in dump, dump[-3000:]
    assert "isvalid: false" not in dump
    listed = [int(number) for number in re.findall(r"^\| offset: (\d+)", dump, re.MULTILINE)]
    assert listed == list(range(len(expected)))
    assert set(re.findall(r"compresscodec: (\w+)", dump)) == set(COMPRESSIONS)
    values = re.findall(r"payload: (\S*)$", dump, re.MULTILINE)
    assert [value for value in values if value] == [record.value for record in expected if record.value]
    assert "producerId: " in dump
    # The index check reads every entry of every index against its segment.
    run_tool(
        "kafka-dump-log",
        [
            "--files",
            ",".join(str(file) for file in sorted(folder.glob("*.index"))),
            "--index-sanity-check",
        ],
    )
