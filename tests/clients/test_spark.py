"""Spark's own Kafka connector: batch and streaming, with and without consumer groups, over restarts and re-creation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.roundtrip import connector
from pybroker.roundtrip import spark as roundtrip_spark
from tests.clients.api import COMPRESSIONS
from tests.clients.confluent import Confluent
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
# The acknowledgement that each codec is tried with: all of both, without the full product of slow Spark jobs.
WRITES = list(zip(COMPRESSIONS, ("all", "1", "0", "all", "1"), strict=True))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of this file: starting it is what takes long."""
    session = roundtrip_spark.session(connector.connector_jars())
    yield session
    session.stop()


def _rows(spark: SparkSession, count: int, tag: str) -> Any:
    return spark.range(0, count, 1, 2).selectExpr(f"concat('{tag}', id % 7) AS key", f"concat('{tag}-', id) AS value")


def _write(frame: Any, broker: BrokerProcess, topic: str, **options: str) -> None:
    frame.write.format("kafka").options(**options).option("kafka.bootstrap.servers", broker.bootstrap).option(
        "topic", topic
    ).save()


def _values(spark: SparkSession, broker: BrokerProcess, topic: str, **options: str) -> list[str]:
    frame = (
        spark.read.format("kafka")
        .options(**options)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .load()
    )
    return sorted(row[0] for row in frame.selectExpr("cast(value AS string)").collect())


def _expected(count: int, *tags: str) -> list[str]:
    return sorted(f"{tag}-{number}" for tag in tags for number in range(count))


@pytest.mark.parametrize(("compression", "acks"), WRITES)
def test_a_batch_is_written_and_read(
    spark: SparkSession, broker: BrokerProcess, topic: str, compression: str, acks: str
) -> None:
    """What Spark writes, Spark and another client read."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, PARTITIONS)
    _write(_rows(spark, 10, "ready"), broker, topic)
    options = {
        "kafka.compression.type": compression,
        "kafka.acks": acks,
        "kafka.enable.idempotence": str(acks == "all").lower(),
    }
    _write(_rows(spark, 1000, "a"), broker, topic, **options)
    everything = sorted(_expected(1000, "a") + _expected(10, "ready"))
    found = client.read(topic, PARTITIONS, len(everything))
    assert sorted(each.value or "" for each in found) == everything
    assert _values(spark, broker, topic) == everything


def test_a_stream_resumes_from_its_checkpoint_after_a_restart(
    spark: SparkSession, start_broker: StartBroker, topic: str, tmp_path: Path
) -> None:
    """The second run of the query copies only what came after the first, although the broker was stopped between."""
    broker = start_broker()
    client = Confluent(broker.bootstrap)
    source, target = f"{topic}-in", f"{topic}-out"
    client.create_topic(source, PARTITIONS)
    client.create_topic(target, PARTITIONS)
    _write(_rows(spark, 300, "before"), broker, source)
    roundtrip_spark.copy_by_stream(spark, broker.bootstrap, source, target, tmp_path / "checkpoint")
    assert _values(spark, broker, target) == _expected(300, "before")
    broker.restart()
    _write(_rows(spark, 300, "after"), broker, source)
    roundtrip_spark.copy_by_stream(spark, broker.bootstrap, source, target, tmp_path / "checkpoint")
    assert _values(spark, broker, target) == _expected(300, "before", "after")


def test_offsets_are_found_through_a_consumer_group(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """Spark's older way to find offsets joins a consumer group of its own name; results are the same."""
    Confluent(broker.bootstrap).create_topic(topic, PARTITIONS)
    _write(_rows(spark, 200, "g"), broker, topic)
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        found = _values(spark, broker, topic, **{"kafka.group.id": f"{topic}-group"})
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")
    assert found == _expected(200, "g")


def test_a_re_created_topic_holds_only_what_is_new(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """Spark's cached producers and consumers meet the topic's second incarnation."""
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, PARTITIONS)
    _write(_rows(spark, 100, "old"), broker, topic)
    assert _values(spark, broker, topic) == _expected(100, "old")
    client.delete_topic(topic)
    client.create_topic(topic, PARTITIONS)
    _write(_rows(spark, 50, "new"), broker, topic)
    assert _values(spark, broker, topic) == _expected(50, "new")


def test_an_unknown_topic_is_named_in_the_error(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """Reading and writing."""
    with pytest.raises(Exception, match=r"UnknownTopicOrPartition|does not host this topic-partition"):
        _values(spark, broker, topic)
    with pytest.raises(Exception, match=f"Topic {topic} not present in metadata"):
        _write(_rows(spark, 1, "x"), broker, topic, **{"kafka.max.block.ms": "5000"})
