"""Whole batch jobs: the same records, keys and partitions as Spark's own connector, both ways."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from examples.roundtrip import connector
from tests.clients.api import Record
from tests.spark.jobs import OURS, PARTITIONS, SPARKS, Jobs, check_both_ways

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Refused = pytest.raises
LATELY_MS = int(time.time()) * 1000 - 3_600_000
"""Timestamps of an hour ago: retention may remove records that are older than a week at any moment."""


def test_spark_finds_the_source_without_registration(spark: SparkSession) -> None:
    """`pyspark_pybroker.DefaultSource` is enough, and its schema is Spark's with pybroker's two ids."""
    assert connector.connector_jars()
    frame = spark.read.format("pybroker").options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    theirs = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    ours = {field.name: field.dataType for field in frame.option("includeHeaders", "true").load().schema}
    for field in theirs.option("includeHeaders", "true").load().schema:
        assert ours.pop(field.name).simpleString() == field.dataType.simpleString(), field.name
    assert ours.keys() == {"topic_id", "cluster_id"}


@pytest.mark.parametrize("codec", ["none", pytest.param("zstd", marks=pytest.mark.slow)])
def test_both_connectors_write_and_read_the_same(jobs: Jobs, topic: str, codec: str) -> None:
    """Counts, keys, values and the partition of every key, in all four combinations."""
    check_both_ways(jobs, topic, 5000, kafka_compression_type=codec)


def test_views_of_sql_are_read_and_inserted_into_and_tables_refused(jobs: Jobs, topic: str) -> None:
    """Spark passes the options of a table in its catalog to no Python source: the error says so, instead of reporting a
    missing option."""
    jobs.create(topic)
    sql, servers = jobs.spark.sql, f"`kafka.bootstrap.servers` '{jobs.bootstrap}'"
    into = f"(key string, value string) USING pybroker OPTIONS ({servers}, topic '{topic}')"
    sql(f"CREATE OR REPLACE TEMPORARY VIEW rows_in {into}")
    sql("INSERT INTO rows_in VALUES ('a', '1'), ('b', '2')")
    out = f"USING pybroker OPTIONS ({servers}, subscribe '{topic}')"
    sql(f"CREATE OR REPLACE TEMPORARY VIEW rows_out {out}")
    found = sql("SELECT cast(key AS string), cast(value AS string) FROM rows_out").collect()
    assert sorted(map(tuple, found)) == [("a", "1"), ("b", "2")]
    sql("INSERT INTO rows_in VALUES ('c', '3')")
    assert sql("SELECT * FROM rows_out").count() == 2, "Spark keeps the plan of a Python source"
    sql(f"CREATE OR REPLACE TEMPORARY VIEW rows_out {out}")
    assert sql("SELECT * FROM rows_out").count() == 3
    with Refused(Exception, match="subscribe is an option of reading"):
        sql("INSERT INTO rows_out VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    with Refused(Exception, match="topic is an option of writing"):
        sql("SELECT * FROM rows_in").collect()
    with Refused(Exception, match="CREATE TEMPORARY VIEW … USING pybroker"):
        sql(f"CREATE TABLE rows_table {out}")


def test_headers_partitions_timestamps_and_topics_come_from_columns(jobs: Jobs, topic: str) -> None:
    """The sink's columns are Spark's, and Spark's connector reads them back."""
    names = [f"{topic}-{number}" for number in range(2)]
    for name in names:
        jobs.create(name)
    frame = jobs.spark.range(0, 200, 1, 2).selectExpr(
        f"concat('{topic}-', id % 2) AS topic",
        "cast(id % 3 AS int) AS partition",
        "cast(id AS string) AS value",
        "array(named_struct('key', 'h', 'value', cast(cast(id AS string) AS binary))) AS headers",
        f"timestamp_millis({LATELY_MS} + id) AS timestamp",
    )
    given = {"kafka.bootstrap.servers": jobs.bootstrap, "mode": "append"}
    frame.write.format("pybroker").options(**given).mode("append").save()
    for number, name in enumerate(names):
        for reader in (OURS, SPARKS):
            found = jobs.read(name, reader, includeHeaders="true").collect()
            assert len(found) == 100
            for row in found:
                value = int(row["value"])
                assert (value % 2, value % 3) == (number, row["partition"])
                assert row["timestamp"].timestamp() == pytest.approx((LATELY_MS + value) / 1000)
                assert [(each["key"], bytes(each["value"])) for each in row["headers"]] == [("h", bytes(row["value"]))]


def test_topics_are_found_by_name_pattern_assignment_and_id(jobs: Jobs, topic: str) -> None:
    """And `columns` selects columns."""
    topic_id = jobs.create(topic)
    jobs.create(f"{topic}-other")
    jobs.write(jobs.rows(300), topic)
    jobs.write(jobs.rows(300, "w"), f"{topic}-other")
    assert jobs.read(topic, topicIds=topic_id).count() == 300
    assert jobs.read(topic, subscribePattern=f"{topic}(-other)?").count() == 600
    only = jobs.read(topic, assign=json.dumps({topic: [1]}), columns="partition,topic_id")
    assert only.columns == ["partition", "topic_id"]
    assert {tuple(row) for row in only.distinct().collect()} == {(1, topic_id)}


@pytest.mark.slow
def test_a_range_is_given_by_offsets_or_times_under_name_or_id(jobs: Jobs, topic: str) -> None:
    """Spark's connector returns the same for the same options, if it has them."""
    topic_id = jobs.create(topic, 1)
    frame = jobs.spark.range(0, 100, 1, 1).selectExpr(
        "cast(id AS string) AS value", f"timestamp_millis({LATELY_MS} + id * 1000) AS timestamp"
    )
    jobs.write(frame, topic)
    by_name = {"startingOffsets": json.dumps({topic: {"0": 10}}), "endingOffsets": json.dumps({topic: {"0": 20}})}
    expected = sorted(str(number) for number in range(10, 20))
    assert jobs.values(topic, **by_name) == jobs.values(topic, SPARKS, **by_name) == expected
    by_id = {"startingOffsets": json.dumps({topic_id: {"0": 10}}), "endingOffsets": json.dumps({topic_id: {"0": 20}})}
    assert jobs.values(topic, **by_id) == expected
    times = {"startingTimestamp": str(LATELY_MS + 90_000), "endingTimestamp": str(LATELY_MS + 95_000)}
    assert (
        jobs.values(topic, **times) == jobs.values(topic, SPARKS, **times) == [str(number) for number in range(90, 95)]
    )
    by_time = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": LATELY_MS + 98_000}})}
    assert jobs.values(topic, **by_time) == jobs.values(topic, SPARKS, **by_time) == ["98", "99"]
    assert jobs.read(topic, minPartitions="7").rdd.getNumPartitions() == 7
    assert jobs.values(topic, minPartitions="7") == sorted(map(str, range(100)))
    assert jobs.read(topic, startingOffsets=json.dumps({topic: {"0": -1}})).count() == 0
    with pytest.raises(Exception, match="has offsets 0 to 100, requested are 500"):
        jobs.read(topic, startingOffsets=json.dumps({topic: {"0": 500}})).count()
    late = {"startingOffsets": json.dumps({topic: {"0": 500}}), "failOnDataLoss": "false"}
    assert jobs.read(topic, **late).count() == 0


def _fails(action: Callable[[], object], told: str) -> None:
    with Refused(Exception, match=told):
        action()


def test_what_cannot_be_done_is_said_before_the_job(jobs: Jobs, topic: str) -> None:
    """The cases are options, columns, topics and modes."""
    rows = jobs.rows(1)
    unknown = f"UnknownTopicError: there is no topic {topic} in cluster .*pybroker topics create {topic} "
    _fails(lambda: jobs.read(topic).count(), unknown)
    _fails(lambda: jobs.write(rows, topic), f"{unknown}.*createTopic=true")
    jobs.create(topic)
    _fails(lambda: jobs.read(topic, startingOfset="earliest").count(), "did you mean startingOffsets")
    _fails(lambda: jobs.write(rows.selectExpr("key"), topic), "no column value in key")
    _fails(lambda: jobs.write(rows.selectExpr("1 AS value"), topic), "column value is int, expected string or binary")
    _fails(lambda: jobs.write(rows, topic, topicId="AAAAAAAAAAAAAAAAAAAAAQ"), "it was re-created")
    given = {"kafka.bootstrap.servers": jobs.bootstrap, "topic": topic, "mode": "append"}
    _fails(lambda: rows.write.format("pybroker").options(**given).mode("overwrite").save(), 'use .mode\\("append"\\)')
    jobs.write(jobs.rows(100), topic)
    assert jobs.read(topic).count() == 100


@pytest.mark.parametrize("mode", ["exactly-once", "append"])
def test_a_write_makes_its_topic_if_asked(jobs: Jobs, topic: str, mode: str) -> None:
    """The topic is created once, before the tasks begin; the next write uses it."""
    for _ in range(2):
        jobs.write(jobs.rows(100), topic, mode=mode, createTopic="true", topicPartitions="3")
    assert jobs.read(topic).count() == 200
    assert jobs.read(topic).selectExpr("partition").distinct().count() == 3


def test_tombstones_and_rows_of_other_clients_are_read(jobs: Jobs, topic: str) -> None:
    """Nulls stay nulls; no headers are null, as in Spark's source."""
    jobs.create(topic)
    records = [Record(0, "k", None), Record(1, None, "v"), Record(2, "a", "b", (("h", "1"),))]
    jobs.client.producer().send(topic, records)
    columns = ("partition", "key", "value", "headers")
    found = {
        reader: jobs.read(topic, reader, includeHeaders="true").select(*columns).collect() for reader in (OURS, SPARKS)
    }
    assert sorted(found[OURS], key=lambda row: row[0]) == sorted(found[SPARKS], key=lambda row: row[0])
    assert sum(row["headers"] is None for row in found[OURS]) == PARTITIONS - 1
