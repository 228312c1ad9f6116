"""Writers as Spark creates them, without Spark: the topic to which the rows are written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from pybroker.spark import ingest_steps
from pybroker.spark.batch_writer import BatchWriter
from pybroker.spark.cluster_requests import BrokerRefusalError, SparkCluster
from pybroker.spark.source_errors import NoSuchTopicIdError, OptionError, TopicChangedError, UnknownTopicError
from pybroker.spark.source_options import write_options
from pybroker.spark.stream_writer import StreamWriter
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

SCHEMA = StructType().add("value", StringType()).add("topic", StringType())


def _options(broker: BrokerProcess, **given: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, **given}


def test_topic_id_alone_names_the_topic(broker: BrokerProcess, topic: str) -> None:
    """In an earlier version, `mode=append` ignored the option if the rows had a column `topic`."""
    client, other = Confluent(broker.bootstrap), f"{topic}-other"
    client.create_topic(topic, 1)
    client.create_topic(other, 1)
    topic_id = SparkCluster({"bootstrap.servers": broker.bootstrap}).topics_named([topic])[topic].id
    rows = pa.record_batch({"value": ["a", "b"], "topic": [other, other]})
    for mode in ("append", "exactly-once"):
        writer = BatchWriter(write_options(_options(broker, mode=mode, topicId=topic_id)), SCHEMA)
        writer.commit([writer.write(iter([rows]))])
    assert (client.end_offsets(topic, 1), client.end_offsets(other, 1)) == ({0: 4}, {0: 0})
    client.delete_topic(topic)
    client.create_topic(topic, 1)
    for options in ({"mode": "append"}, {"mode": "append", "topic": topic}, {}, {"topic": topic}):
        checked = write_options(_options(broker, topicId=topic_id, **options))
        for make in (BatchWriter, StreamWriter):
            with pytest.raises(TopicChangedError, match=f"no topic with id {topic_id}|instead of {topic_id}: it was"):
                make(checked, SCHEMA)
    client.delete_topic(other)


def test_rows_without_a_topic_are_refused(broker: BrokerProcess) -> None:
    """Before any request or write."""
    with pytest.raises(OptionError, match="set the option topic or topicId, or add a column topic"):
        BatchWriter(write_options(_options(broker, mode="append")), StructType().add("value", StringType()))


def test_what_was_committed_before_is_said(broker: BrokerProcess, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """A job runs again with the same `ingestId`, or a micro-batch of a checkpoint that was set back: its rows may
    differ."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 1)
    rows = pa.record_batch({"value": ["a", "b"]})
    schema = StructType().add("value", StringType())
    options = write_options(_options(broker, topic=topic, ingestId=f"{topic}-load"))
    again = f"ingest {topic}-load was already committed; nothing was written"
    for told in ([], [again]):
        writer = BatchWriter(options, schema)
        writer.commit([writer.write(iter([rows]))])
        assert [each.getMessage() for each in caplog.records] == told
    caplog.clear()
    stream = StreamWriter(write_options(_options(broker, topic=topic)), schema)
    cluster = SparkCluster({"bootstrap.servers": broker.bootstrap})
    topic_id = cluster.topics_named([topic])[topic].id
    for told in (False, True):
        begun = ingest_steps.begin(cluster, topic_id, f"{topic}-query", 7, join=True)
        stream.commit([stream._task.write(iter([rows]), 0, begun)], 7)
        assert (f"batch 7 of query {topic}-query was already committed into {topic}" in caplog.text) == told
    assert client.end_offsets(topic, 1) == {0: 4}


def test_a_topic_that_is_not_there_is_unknown_and_made_if_asked(broker: BrokerProcess, topic: str) -> None:
    """A topic that never existed was not re-created. An existing topic stays unchanged."""
    client, schema = Confluent(broker.bootstrap), StructType().add("value", StringType())
    rows = pa.record_batch({"value": ["a", "b"]})
    missing = write_options(_options(broker, topic=topic))
    for make in (BatchWriter, StreamWriter):
        with pytest.raises(UnknownTopicError, match=f"there is no topic {topic} in cluster .*createTopic=true") as told:
            make(missing, schema)
        assert not isinstance(told.value, TopicChangedError)
    with pytest.raises(NoSuchTopicIdError, match=r"deleted .*or this is another cluster"):
        BatchWriter(write_options(_options(broker, topic=topic, topicId="AAAAAAAAAAAAAAAAAAAAAQ")), schema)
    for partitions in ("5", "7"):
        asked = write_options(_options(broker, topic=topic, createTopic="true", topicPartitions=partitions))
        writer = BatchWriter(asked, schema)
        writer.commit([writer.write(iter([rows]))])
    found = SparkCluster({"bootstrap.servers": broker.bootstrap}).topics_named([topic])[topic]
    assert found.partitions == 5
    assert sum(client.end_offsets(topic, 5).values()) == 4
    too_many = _options(broker, topic=f"{topic}-copies", createTopic="true", topicReplicationFactor="3")
    with pytest.raises(BrokerRefusalError, match=f"topic {topic}-copies: INVALID_REPLICATION_FACTOR"):
        BatchWriter(write_options(too_many), schema)
    defaults = StreamWriter(write_options(_options(broker, topic=f"{topic}-stream", createTopic="true")), schema)
    assert defaults._topic is not None
    assert defaults._topic.partitions == 1
