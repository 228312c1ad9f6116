"""Kafka's own tools read the records in `__consumer_offsets` and the other internal topics."""

from __future__ import annotations

import json
import re

from confluent_kafka import Consumer, TopicPartition

from pybroker import client
from pybroker.client import AdminClient, NewTopic, ShareConsumer, TransactionalProducer
from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, Member, create_topic, fill, shared_out, unique, until
from tests.support.kafka_tools import run_tool


def test_the_dump_tool_decodes_offsets_and_groups(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic, group = create_topic(broker.bootstrap, 2), unique("group")
    fill(broker.bootstrap, topic, 2, 7)
    with Member(broker.bootstrap, group, topic, {"group.instance.id": "keeper"}) as member:
        until(lambda: shared_out([member], 2) and len(member.values) == 14, "everything is read")
        member.commit()
    broker.stop()
    logs = sorted(broker.data_dir.glob("__consumer_offsets-*/*.log"))
    dump = run_tool("kafka-dump-log", ["--files", ",".join(map(str, logs)), "--offsets-decoder"])
    assert "isvalid: false" not in dump
    # The decoder prints records that it cannot read as bytes, without these fields.
    commits = re.findall(r'"topic":"(\S+?)","partition":(\d)\}.*?payload: \{.*?"offset":(\d+)', dump)
    assert set(commits) == {(topic, "0", "7"), (topic, "1", "7")}
    assert f'"group":"{group}"' in dump
    assert '"groupInstanceId":"keeper"' in dump
    assert '"protocolType":"consumer"' in dump


async def test_kafkas_formatters_read_all_internal_topics(start_broker: StartBroker) -> None:
    """The records have the versions that Apache Kafka 4.4 writes: monitoring tools know no others."""
    broker = start_broker()
    at = {"bootstrap.servers": broker.bootstrap}
    topic, group, shared = unique("topic"), unique("group"), unique("shared")
    async with AdminClient(at) as admin:
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await admin.alter_share_group_offsets(shared, {client.TopicPartition(topic, 0): 0})
    async with TransactionalProducer({**at, "transactional.id": unique("id")}) as producer, producer.transaction():
        await producer.send_many(topic, [b"1", b"2"], partition=0)
    with Member(broker.bootstrap, group, topic) as member:
        until(lambda: len(member.values) == 2, "both are read")
        member.commit()
    async with ShareConsumer({**at, "group.id": shared}) as consumer:
        consumer.subscribe(topic)
        while not await consumer.poll(1.0):
            pass
        await consumer.commit()

    # The numbers are key types.
    assert read(broker.bootstrap, "__consumer_offsets", "OffsetsMessageFormatter") == {1: {4}}
    assert read(broker.bootstrap, "__consumer_offsets", "GroupMetadataMessageFormatter") == {2: {3}}
    shares = read(broker.bootstrap, "__consumer_offsets", "ShareGroupMessageFormatter")
    assert shares == {kind: {0} for kind in range(10, 16)}
    assert read(broker.bootstrap, "__transaction_state", "TransactionLogMessageFormatter") == {0: {1}}
    states = read(broker.bootstrap, "__share_group_state", "group.share.ShareGroupStateMessageFormatter")
    assert states == {0: {0}, 1: {0}}


def read(bootstrap: str, topic: str, formatter: str) -> dict[int, set[int]]:
    """Return key type → versions of values, from the output of Kafka's formatter for an internal topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    indexes = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, index), WAIT_S) for index in indexes]
    consumer.close()
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
    arguments += ["--formatter", f"org.apache.kafka.tools.consumer.{formatter}"]
    # The tool counts every record, including those that the formatter skips.
    arguments += ["--max-messages", str(sum(high - low for low, high in ends))]
    found: dict[int, set[int]] = {}
    printed = run_tool("kafka-console-consumer", arguments)
    while printed:
        # The printed records follow each other without separators.
        record, end = json.JSONDecoder().raw_decode(printed)
        printed = printed[end:].lstrip()
        if record["value"] is not None:
            assert isinstance(record["value"]["data"], dict), record
            found.setdefault(record["key"]["type"], set()).add(record["value"]["version"])
    return found
