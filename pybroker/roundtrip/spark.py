"""Spark's part: a session with the connector, the batch write, the streaming query, reading back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.roundtrip.texts import Digest, TextFile, lines_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_BATCH = 5000
# Larger batches than the producer's default: this is a bulk load.
PRODUCER = {"kafka.batch.size": "262144", "kafka.linger.ms": "20"}
STREAM_OFFSETS_PER_TRIGGER = 250_000


def session(jars: list[str]) -> SparkSession:
    """A local Spark with the Kafka connector, quiet, on the loopback interface."""
    # Without this, workers start whatever `python3` comes first on the path, which lacks our modules.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local[*]")
        .appName("pybroker-roundtrip")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def _read_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in Spark's workers: files in, one row a line out."""
    import pyarrow as pa

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


def write_batch(spark: SparkSession, bootstrap: str, topic: str, files: list[TextFile]) -> None:
    """One batch job: every line of every file becomes a record, partitioned by the hash of its key."""
    rows = spark.createDataFrame([(file.key, file.path) for file in files], "key string, path string")
    # Whole files per task: the lines of one file keep their order.
    lines = rows.repartition(spark.sparkContext.defaultParallelism * 4).mapInArrow(
        _read_files, "key binary, value binary"
    )
    lines.write.format("kafka").options(**PRODUCER).option("kafka.bootstrap.servers", bootstrap).option(
        "topic", topic
    ).save()


def copy_by_stream(spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: Path) -> int:
    """A structured-streaming query from one topic to another until all is copied; the number of micro-batches."""
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
    """The digest of a topic, computed by Spark in SQL."""
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
