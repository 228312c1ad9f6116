"""Spark's own Kafka connector: batch and streaming, with and without consumer groups, over restarts and re-creation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.roundtrip import connector
from examples.roundtrip import spark as roundtrip_spark
from tests.clients.api import COMPRESSIONS
from tests.clients.confluent import Confluent
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
# The acknowledgements for each codec: every codec and every acknowledgement is used, without all combinations, because
# Spark jobs are slow.
WRITES = list(zip(COMPRESSIONS, ("all", "1", "0", "all", "1"), strict=True))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of this file, because starting it is slow."""
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
    """Spark and another client read the records that Spark writes."""
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
    """The second run of the query copies only later records, although the broker was stopped between."""
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


def test_headers_partitions_and_topics_are_columns(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """Written and read by Spark: unchanged, in two topics by one job. A read by time finds the later records."""
    names = [f"{topic}-{number}" for number in range(2)]
    for name in names:
        Confluent(broker.bootstrap).create_topic(name, PARTITIONS)
    frame = spark.range(0, 120, 1, 2).selectExpr(
        f"concat('{topic}-', id % 2) AS topic",
        f"cast(id % {PARTITIONS} AS int) AS partition",
        "cast(id AS string) AS value",
        "array(named_struct('key', 'h', 'value', cast(cast(id AS string) AS binary))) AS headers",
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap, "includeHeaders": "true"}
    frame.write.format("kafka").options(**options).save()
    found = spark.read.format("kafka").options(**options).option("subscribe", ",".join(names)).load().collect()
    assert sorted(int(row["value"]) for row in found) == list(range(120))
    for row in found:
        value = int(row["value"])
        assert (row["topic"], row["partition"]) == (names[value % 2], value % PARTITIONS)
        assert row["timestampType"] == 0
        assert [(each["key"], bytes(each["value"])) for each in row["headers"]] == [("h", bytes(row["value"]))]
    last = round(max(row["timestamp"].timestamp() for row in found) * 1000)
    _write(_rows(spark, 30, "later"), broker, names[0])
    later = {"startingTimestamp": str(last + 1), "startingOffsetsByTimestampStrategy": "latest"}
    assert _values(spark, broker, names[0], **later) == _expected(30, "later")
    assert len(_values(spark, broker, names[0], endingTimestamp=str(last + 1))) == 60


def test_topics_are_found_by_pattern_and_assignment(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """There are more tasks than partitions."""
    names = [topic, f"{topic}-other"]
    for name in names:
        Confluent(broker.bootstrap).create_topic(name, PARTITIONS)
        _write(_rows(spark, 100, name), broker, name)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("subscribePattern", f"{topic}(-other)?")
    tasks = reader.load().rdd.getNumPartitions()
    matching = reader.option("minPartitions", "12").load()
    assert matching.rdd.getNumPartitions() > tasks
    assert sorted(row[0] for row in matching.selectExpr("cast(value AS string)").collect()) == _expected(100, *names)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    only = reader.option("assign", json.dumps({topic: [1]})).load().select("partition").collect()
    assert {row[0] for row in only} == {1}
    assert len(only) == Confluent(broker.bootstrap).end_offsets(topic, PARTITIONS)[1]


@pytest.mark.parametrize("deprecated", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_a_stream_over_a_pattern_takes_up_new_topics(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path, deprecated: str
) -> None:
    """Spark finds offsets in two ways: by a consumer that joins a group (deprecated), and by an admin client."""
    Confluent(broker.bootstrap).create_topic(f"{topic}-a", PARTITIONS)
    _write(_rows(spark, 100, "a"), broker, f"{topic}-a")

    def copied() -> list[str]:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        incoming = reader.option("subscribePattern", f"{topic}-.").option("startingOffsets", "earliest").load()
        out = str(tmp_path / "out")
        query = (
            incoming.selectExpr("cast(value AS string) AS value")
            .writeStream.format("parquet")
            .options(path=out, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(str(row[0]) for row in spark.read.schema("value string").parquet(out).collect())

    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", deprecated)
    try:
        assert copied() == _expected(100, "a")
        Confluent(broker.bootstrap).create_topic(f"{topic}-b", PARTITIONS)
        _write(_rows(spark, 50, "b"), broker, f"{topic}-b")
        assert copied() == sorted(_expected(100, "a") + _expected(50, "b"))
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")


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
    """The test reads and writes."""
    with pytest.raises(Exception, match=r"UnknownTopicOrPartition|does not host this topic-partition"):
        _values(spark, broker, topic)
    with pytest.raises(Exception, match=f"Topic {topic} not present in metadata"):
        _write(_rows(spark, 1, "x"), broker, topic, **{"kafka.max.block.ms": "5000"})
