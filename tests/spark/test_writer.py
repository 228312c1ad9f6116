"""Writers as Spark makes them, without a Spark: which topic the rows go to."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import OptionError, TopicChangedError
from pybroker.spark.options import write_options
from pybroker.spark.stream_writer import StreamWriter
from pybroker.spark.writer import BatchWriter
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

SCHEMA = StructType().add("value", StringType()).add("topic", StringType())


def _options(broker: BrokerProcess, **given: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, **given}


def test_topic_id_alone_names_the_topic(broker: BrokerProcess, topic: str) -> None:
    """With `mode=append` it was ignored if the rows had a column topic, which chose then."""
    client, other = Confluent(broker.bootstrap), f"{topic}-other"
    client.create_topic(topic, 1)
    client.create_topic(other, 1)
    topic_id = Cluster({"bootstrap.servers": broker.bootstrap}).topics_named([topic])[topic].id
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
            with pytest.raises(TopicChangedError, match=f"there is no topic with id {topic_id}|not {topic_id}: it was"):
                make(checked, SCHEMA)
    client.delete_topic(other)


def test_rows_without_a_topic_are_refused(broker: BrokerProcess) -> None:
    """Before anything is asked or written."""
    with pytest.raises(OptionError, match="the option topic or topicId or a column topic is needed"):
        BatchWriter(write_options(_options(broker, mode="append")), StructType().add("value", StringType()))
