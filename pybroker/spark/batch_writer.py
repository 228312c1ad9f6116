"""Batch writes: exactly once by a staged ingest, or appended directly."""

from __future__ import annotations

import logging
import secrets
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pybroker.native import ArrowSink, IngestAttempt, NativeError, SinkTarget, SinkTransaction, Uuid
from pybroker.spark import ingest_steps, transactional_writes
from pybroker.spark.cluster_requests import SparkCluster, SparkTopic
from pybroker.spark.source_errors import OptionError, SparkSourceError
from pybroker.spark.source_options import WriteOptions
from pybroker.spark.token_source import with_token
from pybroker.spark.transactional_writes import PreparedTransaction
from pybroker.spark.write_target import pinned_topic

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

TEXT: tuple[type[DataType], ...] = (StringType, BinaryType)
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "key": TEXT,
    "value": TEXT,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
    "timestamp": (TimestampType, TimestampNTZType, LongType),
}
# Free space that a batch needs below the topic's `max.message.bytes`, for its header.
BATCH_MARGIN = 512


@dataclass
class StagedRows(WriterCommitMessage):
    """The rows that a task wrote. With a staged ingest, also the ingest and the attempt, which the commit needs."""

    rows: int = 0
    bytes: int = 0
    begun: ingest_steps.Ingest | None = None
    attempt: ingest_steps.Attempt | None = None
    offsets: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Check the columns as Spark's Kafka sink does; other columns are ignored. Raises OptionError."""
    names = set(schema.fieldNames())
    if "value" not in names:
        raise OptionError(f"no column value in {', '.join(schema.fieldNames())}")
    if not options.one_topic and "topic" not in names:
        raise OptionError("set the option topic or topicId, or add a column topic")
    for name, allowed in COLUMNS.items():
        if name in names and not isinstance(schema[name].dataType, allowed):
            kinds = " or ".join(each.typeName() for each in allowed)
            raise OptionError(f"column {name} is {schema[name].dataType.simpleString()}, expected {kinds}")


class Task:
    """A task: writes rows to a sink."""

    def __init__(self, options: WriteOptions, topic: SparkTopic | None, batch_bytes_max: int) -> None:
        self._options = options
        self._topic = topic
        self._batch_bytes_max = batch_bytes_max

    def write(self, rows: Iterator[pa.RecordBatch], writer: int, begun: ingest_steps.Ingest | None) -> StagedRows:
        """Write the rows of Spark's partition `writer`. Raises NativeError."""
        if begun is not None and not begun.is_open:
            return StagedRows(begun=begun)
        return self._written(rows, writer, begun, None)

    def write_in_transaction(
        self, rows: Iterator[pa.RecordBatch], query: str, writer: int, batch: int
    ) -> PreparedTransaction:
        """Write the rows of partition `writer` of a query in a transaction, and leave the transaction open. Raises
        NativeError, TransactionError."""
        assert self._topic is not None, "transactions have a topic: the options were checked"
        cluster = SparkCluster(self._options.client, waits=True)
        timeout_ms = self._options.transaction_timeout_ms
        prepared = transactional_writes.begin(
            cluster, self._topic, transactional_writes.named(query, writer), batch, timeout_ms
        )
        if prepared.done:
            return prepared
        written = self._written(rows, writer, None, transactional_writes.sink_transaction(prepared))
        transactional_writes.mark(cluster, prepared)
        prepared.rows, prepared.bytes, prepared.offsets = written.rows, written.bytes, written.offsets
        return prepared

    def _written(
        self,
        rows: Iterator[pa.RecordBatch],
        writer: int,
        begun: ingest_steps.Ingest | None,
        transaction: SinkTransaction | None,
    ) -> StagedRows:
        # A restarted job must not reuse the attempt numbers of its first run.
        attempt = secrets.randbits(62)
        client, staging = dict(self._options.client), None
        batch_bytes_max = self._batch_bytes_max
        if begun is not None:
            staging = IngestAttempt(
                ingest_id=begun.ingest_id, batch_id=begun.batch_id, epoch=begun.epoch, writer=writer, attempt=attempt
            )
            batch_bytes_max = begun.batch_bytes_max
            if begun.compression_type != "producer":
                client["compression.type"] = begun.compression_type.replace("uncompressed", "none")
        targets = []
        if self._topic is not None:
            topic = self._topic
            limit = max(1, batch_bytes_max - BATCH_MARGIN)
            targets.append(SinkTarget(Uuid.parse(topic.id), topic.name, topic.partitions, limit))
        chooses = self._topic is None
        sink = ArrowSink(
            with_token(client), targets, topic_column=chooses, staging=staging, transaction=transaction, seed=attempt
        )
        for batch in rows:
            sink.write(batch)
        written = sink.finish()
        shares = tuple(
            ingest_steps.Share(partition.partition, partition.records, partition.batch_bytes, partition.checksum)
            for partition in written
        )
        return StagedRows(
            rows=sum(share.rows for share in shares),
            bytes=sum(partition.payload_bytes for partition in written),
            begun=begun,
            attempt=ingest_steps.Attempt(writer, attempt, shares) if begun is not None else None,
            offsets={
                (partition.topic, partition.partition): (partition.first_offset, partition.last_offset)
                for partition in written
                if begun is None
            },
        )


def give_up(options: WriteOptions, begun: ingest_steps.Ingest, what: str) -> None:
    """Abort an open ingest. `what`: the ingest's name in messages. If the abort fails, print a message and continue,
    because the broker removes uncommitted ingests by itself."""
    if not begun.is_open:
        return
    try:
        ingest_steps.abort(SparkCluster(options.client), begun.topic_id, begun.ingest_id, begun.batch_id, begun.epoch)
    except (NativeError, SparkSourceError) as error:
        print(f"pybroker: cannot abort {what}: {error}", file=sys.stderr)


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("pybroker")`. The driver creates it once. It is pickled to the tasks, to commit and to abort."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options
        self._begun: ingest_steps.Ingest | None = None
        topic, batch_bytes_max = None, 1 << 30
        if options.one_topic:
            cluster = SparkCluster(options.client, waits=True)
            topic = pinned_topic(cluster, options)
            if options.exactly_once:
                # A random id makes retries of tasks safe. An id from the user also makes another run of the job safe.
                name = options.ingest_id or str(uuid.uuid4())
                self._begun = ingest_steps.begin(cluster, topic.id, name, ttl_ms=options.ingest_ttl_ms, join=False)
            else:
                batch_bytes_max = cluster.batch_bytes_max(topic.name)
        self._task = Task(options, topic, batch_bytes_max)
        self._query = (options.ingest_id or str(uuid.uuid4())) if options.transactions else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        if self._query is not None:
            return self._task.write_in_transaction(iterator, self._query, partition, 0)
        return self._task.write(iterator, partition, self._begun)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._query is not None:
            transactional_writes.commit(
                SparkCluster(self._options.client, waits=True), transactional_writes.prepared_in(messages)
            )
        if self._begun is not None:
            if not self._begun.is_open:
                log.warning("ingest %s was already committed; nothing was written", self._begun.ingest_id)
            staged = [each for each in messages if isinstance(each, StagedRows)]
            cluster = SparkCluster(self._options.client, waits=True)
            ingest_steps.commit(cluster, self._begun, [each.attempt for each in staged if each.attempt is not None])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        transactional_writes.abort(
            lambda: SparkCluster(self._options.client), transactional_writes.prepared_in(messages)
        )
        if self._begun is not None:
            give_up(self._options, self._begun, f"ingest {self._begun.ingest_id}")
