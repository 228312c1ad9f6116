"""Streaming writes: each micro-batch is a separate staged ingest, `(query id, batch id)`. With `mode=transactions`, it
is one transaction per partition.

Spark creates separate writers for tasks, commit and abort, but does not tell them the query. Tasks read the query from
their local properties and join the same ingest; their messages contain it for the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pybroker.spark import ingest_steps, transactional_writes
from pybroker.spark.batch_writer import StagedRows, Task, check_schema, give_up
from pybroker.spark.cluster_requests import SparkCluster
from pybroker.spark.source_errors import IngestError
from pybroker.spark.source_options import WriteOptions
from pybroker.spark.write_target import pinned_topic

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext

log = logging.getLogger(__name__)

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("pybroker")`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options
        topic, batch_bytes_max = None, 1 << 30
        if options.one_topic:
            cluster = SparkCluster(options.client, waits=True)
            topic = pinned_topic(cluster, options)
            if not options.exactly_once:
                batch_bytes_max = cluster.batch_bytes_max(topic.name)
        self._topic = topic
        self._task = Task(options, topic, batch_bytes_max)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise IngestError("a streaming write requires Spark's tasks")
        begun = None
        if self._options.transactions:
            query, batch = _query_and_batch(context)
            return self._task.write_in_transaction(iterator, query, context.partitionId(), batch)
        if self._options.exactly_once:
            query, batch = _query_and_batch(context)
            assert self._topic is not None, "exactly-once has a topic: the options were checked"
            begun = ingest_steps.begin(
                SparkCluster(self._options.client, waits=True),
                self._topic.id,
                query,
                batch,
                ttl_ms=self._options.ingest_ttl_ms,
                join=True,
            )
        return self._task.write(iterator, context.partitionId(), begun)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        prepared = transactional_writes.prepared_in(messages)
        if prepared:
            _tell_of_repeats(prepared, batchId)
            transactional_writes.commit(SparkCluster(self._options.client, waits=True), prepared)
        staged = [each for each in messages if isinstance(each, StagedRows) and each.begun is not None]
        if not staged:
            return
        begun = staged[0].begun
        assert begun is not None, "filtered above"
        if not begun.is_open:
            log.warning(
                (
                    "batch %d of query %s was already committed into %s (%s) and is not written again. This is "
                    "normal after a failure; if the checkpoint was reset or copied, rows are missing"
                ),
                batchId,
                begun.ingest_id,
                begun.topic,
                begun.topic_id,
            )
        attempts = [each.attempt for each in staged if each.attempt is not None]
        ingest_steps.commit(SparkCluster(self._options.client, waits=True), begun, attempts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        transactional_writes.abort(
            lambda: SparkCluster(self._options.client), transactional_writes.prepared_in(messages)
        )
        begun = next((each.begun for each in messages if isinstance(each, StagedRows) and each.begun), None)
        if begun is not None:
            give_up(self._options, begun, f"batch {batchId} of {begun.ingest_id}")


def _query_and_batch(context: TaskContext) -> tuple[str, int]:
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    if query is None or batch is None:
        raise IngestError(f"Spark did not provide the query id and batch number ({QUERY}, {BATCH})")
    return query, int(batch)


def _tell_of_repeats(prepared: list[transactional_writes.PreparedTransaction], batch: int) -> None:
    done = sum(transaction.done for transaction in prepared)
    if done:
        log.warning(
            (
                "batch %d: %d of %d partitions were already committed into %s and are not written again. This is "
                "normal after a failure; if the checkpoint was reset or copied, rows are missing"
            ),
            batch,
            done,
            len(prepared),
            prepared[0].topic,
        )
