"""Reads and writes through pybroker's connector and through Spark's own, by the same methods."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from tests.clients.confluent import Confluent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, SPARKS = "pybroker", "kafka"
PARTITIONS = 3
KNOWN_WITHIN_S = 120.0
STARTED_WITHIN_S = 300.0
# Spark gives the Python worker of a streaming source 10 s to start; no setting changes that.
BUSY = "Python worker failed to connect back"
BATCHES = {"kafka.batch.size": "20000"}


@dataclass(frozen=True)
class Contents:
    """A topic's contents as sums: equal contents have equal sums, whatever the order between partitions."""

    records: int
    keys: int
    values: int
    places: int

    @staticmethod
    def of(frame: DataFrame) -> Contents:
        """Return the contents of a frame with key, value and partition."""
        row = frame.selectExpr(
            "count(*) AS records",
            "coalesce(sum(crc32(key)), 0) AS keys",
            "coalesce(sum(crc32(value)), 0) AS values",
            "coalesce(sum(crc32(key) * (partition + 1)), 0) AS places",
        ).first()
        assert row is not None
        return Contents(*map(int, row))


class Jobs:
    """Whole Spark jobs against one broker."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.client = Confluent(bootstrap)

    def create(self, topic: str, partitions: int = PARTITIONS) -> str:
        """Create a topic; return its id."""
        self.client.create_topic(topic, partitions)
        return self.topic_id(topic)

    def topic_id(self, topic: str) -> str:
        """Return the current id of a topic; Apache Kafka's brokers see a new topic a moment after its creation."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        give_up = time.monotonic() + KNOWN_WITHIN_S
        while True:
            try:
                described = admin.describe_topics(TopicCollection([topic]), request_timeout=60)[topic].result(60)
            except KafkaException:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)
            else:
                return str(described.topic_id).translate(str.maketrans("+/", "-_"))

    def recreate(self, topic: str, partitions: int = PARTITIONS) -> str:
        """Delete a topic and create it again; return its new id."""
        self.client.delete_topic(topic)
        return self.create(topic, partitions)

    def rows(self, count: int, tag: str = "v", tasks: int = 4) -> DataFrame:
        """Return rows with keys that repeat."""
        return self.spark.range(0, count, 1, tasks).selectExpr(
            f"concat('{tag}-key-', id % 97) AS key", f"concat('{tag}-', id) AS value"
        )

    def write(self, frame: DataFrame, topic: str, connector: str = OURS, **options: str) -> None:
        """Append; pybroker's connector uses `mode=append` by default."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic, **_dotted(options)}
        if connector == OURS:
            given.setdefault("mode", "append")
        frame.write.format(connector).options(**given).mode("append").save()

    def read(self, topic: str, connector: str = OURS, **options: str) -> DataFrame:
        """Read all columns of a topic."""
        given = {"kafka.bootstrap.servers": self.bootstrap, **_dotted(options)}
        if not given.keys() & {"subscribe", "subscribePattern", "assign", "topicIds"}:
            given["subscribe"] = topic
        return self.spark.read.format(connector).options(**given).load()

    def contents(self, topic: str, connector: str = OURS, **options: str) -> Contents:
        """Return the records that a connector reads from a topic."""
        return Contents.of(self.read(topic, connector, **options))

    def values(self, topic: str, connector: str = OURS, **options: str) -> list[str]:
        """Return the sorted values."""
        frame = self.read(topic, connector, **options).selectExpr("cast(value AS string)")
        return sorted(str(row[0]) for row in frame.collect())

    def stream(self, topic: str, connector: str = OURS, **options: str) -> DataFrame:
        """Return a streaming read."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "startingOffsets": "earliest", **_dotted(options)}
        if not given.keys() & {"subscribe", "subscribePattern", "assign", "topicIds"}:
            given["subscribe"] = topic
        return self.spark.readStream.format(connector).options(**given).load()

    def run(self, frame: DataFrame, checkpoint: Path, sink: str = "noop", **options: str) -> list[dict[str, Any]]:
        """Run a query over all available records; return the progress of its micro-batches. Raise the error that
        stopped it. If the machine was too busy to start the query, it has done nothing yet and is started again."""
        from pyspark.errors import StreamingQueryException

        give_up = time.monotonic() + STARTED_WITHIN_S
        while True:
            try:
                return self._run_once(frame, checkpoint, sink, options)
            except StreamingQueryException as error:
                if BUSY not in str(error) or time.monotonic() > give_up:
                    raise

    def _run_once(self, frame: DataFrame, checkpoint: Path, sink: str, options: dict[str, str]) -> list[dict[str, Any]]:
        query = (
            frame.writeStream.format(sink)
            .options(checkpointLocation=str(checkpoint), **_dotted(options))
            .queryName(f"copy-{uuid.uuid4()}")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(600)
            assert not query.isActive, "the query did not end"
            return [dict(each) for each in query.recentProgress]
        finally:
            query.stop()

    def sink(self, topic: str, **options: str) -> dict[str, str]:
        """Return the options of pybroker's streaming sink."""
        return {"kafka.bootstrap.servers": self.bootstrap, "topic": topic, **options}


def check_both_ways(jobs: Jobs, topic: str, count: int, **options: str) -> None:
    """The same rows written by both connectors are the same records, whichever of the two reads them. They are left in
    `topic`-theirs and `topic`-ours."""
    theirs, ours = f"{topic}-theirs", f"{topic}-ours"
    rows = jobs.rows(count)
    for name, writer in ((theirs, SPARKS), (ours, OURS)):
        jobs.create(name)
        jobs.write(rows, name, writer, **options)
    expected = jobs.contents(theirs, SPARKS)
    assert expected.records == count
    assert expected == Contents.of(jobs.read(theirs)) == jobs.contents(ours) == jobs.contents(ours, SPARKS)
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    left, right = jobs.read(ours, OURS).select(*columns), jobs.read(ours, SPARKS).select(*columns)
    assert left.exceptAll(right).count() == 0
    assert right.exceptAll(left).count() == 0


def _dotted(options: dict[str, str]) -> dict[str, str]:
    """`kafka_acks` means `kafka.acks`: keyword arguments have no dots."""
    return {(name.replace("_", ".") if name.startswith("kafka_") else name): value for name, value in options.items()}
