"""Writes are in the topic exactly once or not at all, whatever fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pybroker.spark import ingest_steps
from pybroker.spark.batch_writer import BatchWriter
from pybroker.spark.cluster_requests import SparkCluster
from pybroker.spark.source_errors import IngestError, TopicChangedError
from pybroker.spark.source_options import write_options
from tests.clients.confluent import Confluent
from tests.conftest import StartBroker
from tests.spark.jobs import PARTITIONS, Contents, Jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNT = 2000
SCHEMA = "key string, value string"


def _rows(jobs: Jobs, count: int = COUNT) -> DataFrame:
    """Four tasks of several Arrow batches each."""
    jobs.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    return jobs.rows(count)


def _save(jobs: Jobs, frame: DataFrame, topic: str, **options: str) -> None:
    jobs.write(frame, topic, mode="exactly-once", **options)


def _counts(jobs: Jobs, topic: str) -> tuple[int, Contents]:
    """Count rows by the broker's end offsets, and by reads of Spark's connector."""
    ends = jobs.client.end_offsets(topic, PARTITIONS)
    return sum(ends.values()), jobs.contents(topic, "kafka")


def _broken(frame: DataFrame, how: str, attempts: int) -> DataFrame:
    """Return rows of which task 1 fails after some in its first `attempts` attempts."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if context.partitionId() == 1 and context.attemptNumber() < attempts and number == 3:
                if how == "dies":
                    os._exit(9)
                raise ValueError("broken on purpose")
            yield batch

    return frame.mapInArrow(pass_on, SCHEMA)


@pytest.mark.parametrize(("how", "attempts"), [pytest.param("raises", 2, marks=pytest.mark.slow), ("dies", 1)])
def test_tasks_that_fail_leave_nothing(jobs: Jobs, topic: str, how: str, attempts: int) -> None:
    """The tasks are retried: their first attempts had already staged rows."""
    jobs.create(topic)
    jobs.create(f"{topic}-plain")
    rows = _rows(jobs)
    jobs.write(rows, f"{topic}-plain", "kafka")
    _save(jobs, _broken(rows, how, attempts), topic, kafka_batch_size="2000")
    assert _counts(jobs, topic) == (COUNT, jobs.contents(f"{topic}-plain", "kafka"))


@pytest.mark.slow
def test_a_job_that_fails_leaves_nothing_and_may_run_again(jobs: Jobs, topic: str) -> None:
    """All four attempts of a task fail; then the same load succeeds, and once more does nothing."""
    jobs.create(topic)
    rows = _rows(jobs)
    with pytest.raises(Exception, match="broken on purpose"):
        _save(jobs, _broken(rows, "raises", 9), topic, ingestId=f"{topic}-1")
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == 0
    _save(jobs, rows, topic, ingestId=f"{topic}-1")
    _save(jobs, rows, topic, ingestId=f"{topic}-1")
    assert _counts(jobs, topic)[0] == COUNT
    _save(jobs, rows, topic, ingestId=f"{topic}-2")
    assert _counts(jobs, topic)[0] == 2 * COUNT


def test_rows_of_a_key_keep_their_order(jobs: Jobs, topic: str) -> None:
    """Within a partition, records have the order of the DataFrame."""
    jobs.create(topic)
    _save(jobs, _rows(jobs), topic)
    found = jobs.read(topic).selectExpr("cast(value AS string) v", "partition", "offset").collect()
    by_partition: dict[int, list[int]] = {}
    for row in sorted(found, key=lambda each: each["offset"]):
        by_partition.setdefault(row["partition"], []).append(int(row["v"].removeprefix("v-")))
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


@pytest.mark.checklist(7)
def test_nothing_of_a_job_is_in_a_topic_that_was_re_created_meanwhile(jobs: Jobs, topic: str) -> None:
    """A task deletes and creates the topic between its rows: the job fails and names the id."""
    old = jobs.create(topic)
    bootstrap = jobs.bootstrap

    def recreate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if context.partitionId() == 1 and context.attemptNumber() == 0 and number == 3:
                client = Confluent(bootstrap)
                client.delete_topic(topic)
                client.create_topic(topic, PARTITIONS)
            yield batch

    with pytest.raises(Exception, match="UNKNOWN_TOPIC_ID") as refused:
        _save(jobs, _rows(jobs).mapInArrow(recreate, SCHEMA), topic, kafka_batch_size="2000")
    assert old in str(refused.value)
    assert jobs.topic_id(topic) != old
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == 0


def _writer(jobs: Jobs, topic: str, ingest_id: str) -> BatchWriter:
    from pyspark.sql.types import StringType, StructField, StructType

    options = {"kafka.bootstrap.servers": jobs.bootstrap, "topic": topic, "ingestId": ingest_id}
    return BatchWriter(write_options(options), StructType([StructField("value", StringType())]))


def _batches(count: int = 100) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"value": [f"v{number}" for number in range(count)]})


def test_a_commit_that_is_repeated_is_a_success_and_an_abort_after_it_does_nothing(jobs: Jobs, topic: str) -> None:
    """Spark aborts after any exception of commit, also when only the answer was lost."""
    jobs.create(topic)
    writer = _writer(jobs, topic, topic)
    staged: list[Any] = [writer.write(_batches())]
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == 0
    for _ in range(3):
        writer.commit(staged)
    writer.abort(staged)
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == 100


def test_a_driver_that_dies_before_commit_is_fenced_by_the_next(jobs: Jobs, topic: str) -> None:
    """The second run begins again; the first one, if it still runs, cannot commit or stage any more."""
    jobs.create(topic)
    first = _writer(jobs, topic, topic)
    left: list[Any] = [first.write(_batches())]
    second = _writer(jobs, topic, topic)
    with pytest.raises(Exception, match="PRODUCER_FENCED"):
        first.write(_batches())
    with pytest.raises(IngestError):
        first.commit(left)
    second.commit([second.write(_batches())])
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == 100


def test_a_driver_that_dies_after_commit_is_repeated_without_effect(jobs: Jobs, topic: str) -> None:
    """Its successor sees that the ingest is committed: tasks write nothing, and commit succeeds."""
    jobs.create(topic)
    first = _writer(jobs, topic, topic)
    first.commit([first.write(_batches())])
    second = _writer(jobs, topic, topic)
    again: list[Any] = [second.write(_batches())]
    assert again[0].rows == 0
    second.commit(again)
    assert sum(jobs.client.end_offsets(topic, PARTITIONS).values()) == 100


def test_a_deleted_topic_and_another_cluster_are_told_apart_from_trouble(
    jobs: Jobs, topic: str, start_broker: StartBroker
) -> None:
    """The job does not wait: a retry cannot help."""
    topic_id = jobs.create(topic)
    other = start_broker()
    Confluent(other.bootstrap).create_topic(topic, PARTITIONS)
    elsewhere = SparkCluster({"bootstrap.servers": other.bootstrap})
    with pytest.raises(TopicChangedError):
        ingest_steps.begin(elsewhere, topic_id, "x", join=False)


def test_a_stream_writes_every_row_once_over_restarts_at_any_point(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """A batch fails half-way and is run again. Another batch is run again although it was committed, as after a crash
    between the sink's commit and Spark's own."""
    source, target = f"{topic}-in", f"{topic}-out"
    jobs.create(source)
    jobs.create(target)
    jobs.write(jobs.rows(1000), source)
    checkpoint = tmp_path / "checkpoint"
    incoming = jobs.stream(source, maxOffsetsPerTrigger="400").selectExpr(
        "cast(key AS string) AS key", "cast(value AS string) AS value"
    )
    with pytest.raises(Exception, match="broken on purpose"):
        jobs.run(_broken_stream(incoming), checkpoint, "pybroker", **jobs.sink(target))
    assert sum(jobs.client.end_offsets(target, PARTITIONS).values()) == 0
    jobs.run(incoming, checkpoint, "pybroker", **jobs.sink(target))
    expected = jobs.contents(source, "kafka")
    assert jobs.contents(target, "kafka") == expected
    # This is the state after a crash before Spark recorded the batch as complete: Spark runs the last batch again, with
    # the same number.
    committed = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    committed[-1].unlink()
    (checkpoint / "commits" / f".{committed[-1].name}.crc").unlink(missing_ok=True)
    jobs.run(incoming, checkpoint, "pybroker", **jobs.sink(target))
    assert jobs.contents(target, "kafka") == expected
    jobs.write(jobs.rows(100, "w"), source)
    jobs.run(incoming, checkpoint, "pybroker", **jobs.sink(target))
    assert _counts(jobs, target) == (1100, jobs.contents(source, "kafka"))


def _broken_stream(frame: DataFrame) -> DataFrame:
    def break_(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 2:
            raise ValueError("broken on purpose")

    return frame.mapInArrow(break_, SCHEMA)
