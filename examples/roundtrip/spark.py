"""Spark's part: a session with the connector, the batch write, the streaming query, reading back."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from examples.roundtrip.texts import Digest, TextFile, lines_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_BATCH = 5000
# Larger batches than the producer's default: this is a bulk load.
PRODUCER = {"kafka.batch.size": "262144", "kafka.linger.ms": "20"}
STREAM_OFFSETS_PER_TRIGGER = 250_000


def session(jars: list[str], master: str = "local[*,4]") -> SparkSession:
    """Return a quiet local Spark with the Kafka connector, on the loopback interface. It retries failed tasks."""
    # Without this, workers start the first `python3` on the path, which lacks our modules.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master(master)
        .appName("pybroker-roundtrip")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "4")
        # A busy machine may need longer than 15 s to start a Python worker.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def _end_with_the_reader() -> None:
    """End a worker by SIGPIPE when its reader is gone, like a program in a shell's pipe. Otherwise the workers of a
    killed task would each print a BrokenPipeError."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read files and yield one row per line. Runs in Spark's workers."""
    import pyarrow as pa

    _end_with_the_reader()
    names = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    for batch in batches:
        for row in batch.to_pylist():
            key = row["key"].encode()
            values: list[bytes] = []
            for line in lines_of(row["path"]):
                values.append(line)
                if len(values) == RECORDS_PER_BATCH:
                    yield pa.record_batch([[key] * len(values), values], schema=names)
                    values = []
            if values:
                yield pa.record_batch([[key] * len(values), values], schema=names)


SCHEMA = "key binary, value binary"
# Rows of a task before it is killed; batches are small, so some are staged by then.
KILLED_AFTER_ROWS = 3000
ROWS_AT_A_TIME = 500
STOP_SECONDS_MAX = 60.0
"""A job that is not stopped within this time continues."""
STAGED_BATCH = {"kafka.batch.size": "16384"}


def _lines(spark: SparkSession, files: list[TextFile]) -> DataFrame:
    """Return every line of every file as a row."""
    rows = spark.createDataFrame([(file.key, file.path) for file in files], "key string, path string")
    # Whole files per task: the lines of one file keep their order.
    return rows.repartition(spark.sparkContext.defaultParallelism * 4).mapInArrow(_read_files, SCHEMA)


def write_exactly_once(
    spark: SparkSession, bootstrap: str, topic: str, files: list[TextFile], *, killed: Path, ingest_id: str
) -> None:
    """Run one batch job through `format("pybroker")`. The process of one task is killed after some of its rows and
    leaves the file `killed` behind. Then repeat the load, which finds all records present."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _end_with_the_reader()
        rows = 0
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS_AT_A_TIME):
                piece = batch.slice(start, ROWS_AT_A_TIME)
                yield piece
                rows += piece.num_rows
                if rows >= KILLED_AFTER_ROWS and not killed.exists():
                    killed.touch()
                    os._exit(9)

    lines = _lines(spark, files)
    # Spark would print pages about the task that is killed on purpose; fatal errors are raised anyway.
    spark.sparkContext.setLogLevel("OFF")
    for rows in (lines.mapInArrow(pass_on, SCHEMA), lines):
        rows.write.format("pybroker").options(**STAGED_BATCH).option("kafka.bootstrap.servers", bootstrap).option(
            "topic", topic
        ).option("ingestId", ingest_id).mode("append").save()
    spark.sparkContext.setLogLevel("ERROR")


def _stop_here(under_way: Path, go_on: Path) -> None:
    under_way.touch()
    give_up = time.monotonic() + STOP_SECONDS_MAX
    while not go_on.exists() and time.monotonic() < give_up:
        time.sleep(0.05)


def write_ingest(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    files: list[TextFile],
    *,
    ingest_id: str,
    stop: tuple[Path, Path] | None = None,
) -> None:
    """Run one batch job through `format("pybroker")`. `stop`: a task creates the first file after some of its rows, and
    continues when the second file exists."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _end_with_the_reader()
        rows = 0
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS_AT_A_TIME):
                piece = batch.slice(start, ROWS_AT_A_TIME)
                yield piece
                rows += piece.num_rows
                if stop is not None and rows >= KILLED_AFTER_ROWS and not stop[1].exists():
                    _stop_here(*stop)

    rows = _lines(spark, files).mapInArrow(pass_on, SCHEMA)
    # Hide retries after a broker has died: they are expected.
    spark.sparkContext.setLogLevel("OFF")
    rows.write.format("pybroker").options(**STAGED_BATCH).option("kafka.bootstrap.servers", bootstrap).option(
        "topic", topic
    ).option("ingestId", ingest_id).mode("append").save()
    spark.sparkContext.setLogLevel("ERROR")


def write_batch(spark: SparkSession, bootstrap: str, topic: str, files: list[TextFile]) -> None:
    """Run one batch job: every line of every file becomes a record, partitioned by the hash of its key."""
    _lines(spark, files).write.format("kafka").options(**PRODUCER).option("kafka.bootstrap.servers", bootstrap).option(
        "topic", topic
    ).save()


def copy_by_stream(spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: Path) -> int:
    """Copy one topic to another by a structured-streaming query; return the number of micro-batches."""
    incoming = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", STREAM_OFFSETS_PER_TRIGGER)
        .load()
    )
    query = (
        incoming.select("key", "value")
        .writeStream.format("kafka")
        .options(**PRODUCER)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.compression.type", "lz4")
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    return progress.batchId + 1 if progress else 0


def read_back(spark: SparkSession, bootstrap: str, topic: str) -> Digest:
    """Return the digest of a topic, computed by Spark in SQL."""
    frame: DataFrame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )
    row = frame.selectExpr(
        "count(*) AS records",
        "coalesce(sum(length(key) + length(value)), 0) AS size_bytes",
        "coalesce(sum(cast(conv(substr(sha2(concat(key, X'00', value), 256), 1, 15), 16, 10) AS decimal(20, 0))), 0)"
        " AS total",
    ).first()
    assert row is not None, "an aggregate without groups has exactly one row"
    return Digest(int(row["records"]), int(row["size_bytes"]), int(row["total"]))
