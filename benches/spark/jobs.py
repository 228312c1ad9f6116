"""The measured Spark jobs, with the same code for both connectors."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import confluent_kafka as ck

from benches.compare.cases import fresh
from benches.spark.columns import Column
from benches.spark.meter import Meter
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
TASKS = 4
TRIGGERS = 4
_PATTERN = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ATTACHED = re.compile(r"committed: (\d+) bytes.* in (\d+) ms")
Figures = dict[str, float]


def generated(spark: SparkSession, rows: int, size: int) -> DataFrame:
    """Return rows with decimal numbers as keys and distinct values of `size` bytes. A row costs about one memcpy."""
    pattern = (_PATTERN * (size // len(_PATTERN) + 1))[: size - 16]
    return spark.range(0, rows, 1, TASKS).selectExpr(
        "cast(cast(id AS string) AS binary) AS key",
        f"cast(concat(lpad(hex(id * 2654435761), 16, '0'), '{pattern}') AS binary) AS value",
    )


def _drop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _dropped(frame: DataFrame, rows: int, brokers: Collection[int]) -> Figures:
    with Meter(None, brokers) as meter:
        _drop(frame)
    return meter.figures(rows)


def generate(spark: SparkSession, rows: int, size: int, brokers: Collection[int]) -> Figures:
    """Generate rows and drop them: the cost of a write before it writes."""
    return _dropped(generated(spark, rows, size), rows, brokers)


def hand_over(spark: SparkSession, rows: int, size: int, brokers: Collection[int]) -> Figures:
    """Generate rows and drop them in Python: the limit of any writer in Python."""
    handed_over = generated(spark, rows, size).mapInArrow(_nothing, "key binary, value binary")
    return _dropped(handed_over, rows, brokers)


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


class Jobs:
    """The jobs of one column. Later jobs read the topics of earlier ones until `forget`."""

    def __init__(self, spark: SparkSession, column: Column, broker: BrokerProcess) -> None:
        self._spark = spark
        self._column = column
        self._broker = broker
        self._client = Confluent(broker.bootstrap)
        self._base = {"kafka.bootstrap.servers": broker.bootstrap}
        self._topics: dict[int, str] = {}

    def write(self, rows: int, size: int, brokers: Collection[int]) -> Figures:
        """Generate and write; for exactly-once writes also return the broker's time of linking."""
        topic = self._create()
        self.forget(size)
        self._topics[size] = topic
        frame = generated(self._spark, rows, size)
        log_size = self._broker.console.stat().st_size
        with Meter(self._broker.pid, brokers) as meter:
            frame.write.format(self._column.format).options(**self._base, topic=topic, **self._column.write).mode(
                "append"
            ).save()
        self._check(topic, rows)
        return {**meter.figures(rows), **self._attached(log_size)}

    def read(self, rows: int, size: int, brokers: Collection[int], columns: tuple[str, ...]) -> Figures:
        """Read the rows of `write` and drop them; all columns if none is named."""
        topic = self._written(rows, size, brokers)
        reader = self._spark.read.format(self._column.format).options(
            **self._base, subscribe=topic, **self._column.read
        )
        if columns and self._column.format == "pybroker":
            reader = reader.option("columns", ",".join(columns))
        frame = reader.load()
        with Meter(self._broker.pid, brokers) as meter:
            _drop(frame.select(*columns) if columns else frame)
        return meter.figures(rows)

    def stream(self, rows: int, size: int, brokers: Collection[int]) -> Figures:
        """Copy the topic of `write` by a streaming query, in a few micro-batches."""
        source, sink = self._written(rows, size, brokers), self._create()
        reader = self._spark.readStream.format(self._column.format).options(
            **self._base,
            subscribe=source,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=str(max(1, rows // TRIGGERS)),
            **self._column.read,
        )
        if self._column.format == "pybroker":
            reader = reader.option("columns", "key,value")
        with tempfile.TemporaryDirectory(prefix="pybroker-bench-checkpoint-") as checkpoint:
            query = reader.load().select("key", "value").writeStream.format(self._column.format)
            query = query.options(**self._base, topic=sink, checkpointLocation=checkpoint, **self._column.write)
            with Meter(self._broker.pid, brokers) as meter:
                query.trigger(availableNow=True).start().awaitTermination()
        self._check(sink, rows)
        self._client.delete_topic(sink)
        return meter.figures(rows)

    def forget(self, size: int) -> None:
        """Delete the topic of `write`."""
        if size in self._topics:
            self._client.delete_topic(self._topics.pop(size))

    def _create(self) -> str:
        topic = fresh("spark")
        self._client.create_topic(topic, PARTITIONS)
        return topic

    def _written(self, rows: int, size: int, brokers: Collection[int]) -> str:
        if size not in self._topics:  # The case that writes the topic was excluded by --only.
            self.write(rows, size, brokers)
        return self._topics[size]

    def _check(self, topic: str, rows: int) -> None:
        """Raise if a job lost or repeated rows: its figures would be void."""
        consumer = ck.Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": "bench"})
        try:
            ends = [consumer.get_watermark_offsets(ck.TopicPartition(topic, part)) for part in range(PARTITIONS)]
        finally:
            consumer.close()
        found = sum(end[1] for end in ends if end)
        if found != rows:
            raise RuntimeError(f"{self._column.name}: the topic has {found} rows instead of {rows}")

    def _attached(self, log_size: int) -> Figures:
        """Return the broker's log lines after its first `log_size` bytes, parsed."""
        if self._column.write.get("mode") != "exactly-once":
            return {}
        give_up = time.monotonic() + 10
        while time.monotonic() < give_up:
            with self._broker.console.open("rb") as log:
                log.seek(log_size)
                lines = _ATTACHED.findall(log.read().decode(errors="replace"))
            if lines:
                staged, took = lines[-1]
                return {"staged_mb": int(staged) / 1e6, "attach_ms": int(took)}
            time.sleep(0.05)
        raise RuntimeError(f"{self._column.name}: the broker's log has no line about the attach")


def session() -> SparkSession:
    """Return a session with two concurrent tasks, whatever the machine has, and with Spark's own connector."""
    from examples.roundtrip.connector import connector_jars
    from examples.roundtrip.spark import session as roundtrip_session

    return roundtrip_session(connector_jars(), master="local[2]")
