"""`mode=transactions`: exactly once by Kafka's transactions, into pybroker and into Apache Kafka, whatever fails
between the first row and the last commit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pybroker.client import blocking
from pybroker.native import ArrowSink, NativeError, SinkTarget, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark import transactional_writes
from pybroker.spark.cluster_requests import SparkCluster
from pybroker.spark.source import DefaultSource
from pybroker.spark.source_errors import TransactionError
from pybroker.spark.source_options import write_options
from pybroker.spark.stream_writer import StreamWriter
from pybroker.spark.transactional_writes import PreparedTransaction
from tests.spark.jobs import OURS, Jobs
from tests.support.brokers import BrokerProcess, KafkaProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

COUNT = 600
SCHEMA = "key string, value string"
COMMITTED = {"kafka_isolation_level": "read_committed"}
TIMEOUT_MS = 600_000
WAIT_S = 20.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    broker = KafkaProcess(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(params=["pybroker", "kafka"])
def there(request: pytest.FixtureRequest, spark: SparkSession) -> Jobs:
    """Jobs against each of the two brokers."""
    broker: BrokerProcess = request.getfixturevalue("broker" if request.param == "pybroker" else "kafka")
    return Jobs(spark, broker.bootstrap)


class Writer:
    """The writer of one partition, step by step, without Spark."""

    def __init__(self, jobs: Jobs, topic: str, query: str = "") -> None:
        self.bootstrap = jobs.bootstrap
        self.cluster = SparkCluster({"bootstrap.servers": jobs.bootstrap})
        self.topic = self.cluster.topics_named([topic])[topic]
        self.name = transactional_writes.named(query or topic, 0)

    def begun(self, batch: int = 0) -> PreparedTransaction:
        return transactional_writes.begin(self.cluster, self.topic, self.name, batch, TIMEOUT_MS)

    def send(self, prepared: PreparedTransaction, value: str) -> None:
        sink = ArrowSink(
            {"bootstrap.servers": self.bootstrap},
            [SinkTarget(Uuid.parse(self.topic.id), self.topic.name, self.topic.partitions, 1 << 20)],
            transaction=transactional_writes.sink_transaction(prepared),
        )
        sink.write(pa.record_batch({"value": [value]}))
        sink.finish()

    def prepared(self, value: str, batch: int = 0) -> PreparedTransaction:
        """Return a transaction as a task leaves it."""
        prepared = self.begun(batch)
        assert not prepared.done
        self.send(prepared, value)
        transactional_writes.mark(self.cluster, prepared)
        return prepared

    def commit(self, *prepared: PreparedTransaction) -> None:
        transactional_writes.commit(self.cluster, prepared)


def _values(count: int = COUNT, tag: str = "v") -> list[str]:
    return sorted(f"{tag}-{number}" for number in range(count))


def _broken(frame: DataFrame, bootstrap: str, topic: str) -> DataFrame:
    """Return rows of which task 1 fails after some in its first attempt.

    The attempt dies when its writer has its producer id. Otherwise the writer, which is another process, may outlive
    the attempt and fence the second one.
    """

    transactional_id = transactional_writes.named(topic, 1)

    def await_producer() -> None:
        give_up = time.monotonic() + WAIT_S
        with blocking.AdminClient({"bootstrap.servers": bootstrap}) as admin:
            while not admin.list_transactions(pattern=re.escape(transactional_id)):
                assert time.monotonic() < give_up, f"{transactional_id} has no producer"
                time.sleep(0.05)

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if context.partitionId() == 1 and context.attemptNumber() == 0 and number == 3:
                await_producer()
                os._exit(9)
            yield batch

    return frame.mapInArrow(pass_on, SCHEMA)


def test_a_batch_with_a_task_that_is_tried_again(there: Jobs, topic: str) -> None:
    """The attempt that died had sent rows; a second run under the name writes nothing."""
    there.create(topic)
    there.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    name = {"mode": "transactions", "ingestId": topic, "kafka_batch_size": "500"}
    there.write(_broken(there.rows(COUNT), there.bootstrap, topic), topic, **name)
    assert there.values(topic, **COMMITTED) == _values()
    assert there.values(topic, "kafka", **COMMITTED) == _values()
    there.write(there.rows(COUNT), topic, **name)
    assert there.values(topic, **COMMITTED) == _values()


def test_attempts_of_one_partition(there: Jobs, topic: str) -> None:
    """The next attempt fences the one before, which can neither write nor commit. Committed rows are there once,
    however often the commit is repeated; aborted rows are not there."""
    there.create(topic)
    writer = Writer(there, topic)
    first, second = writer.prepared("first"), writer.prepared("second")
    with pytest.raises(TransactionError, match="cannot be committed"):
        writer.commit(first)
    with pytest.raises(NativeError) as fenced:
        writer.send(first, "late")
    assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    # No row is visible yet: the driver has not committed.
    assert there.values(topic, **COMMITTED) == []
    writer.commit(second)
    writer.commit(second)
    assert writer.begun().done
    assert there.values(topic, **COMMITTED) == ["second"]
    given_up = writer.prepared("given up", batch=1)
    for _ in range(2):
        transactional_writes.abort(lambda: writer.cluster, [given_up])
    with pytest.raises(TransactionError, match="cannot be committed"):
        writer.commit(given_up)
    writer.commit(writer.prepared("third", batch=1))
    assert there.values(topic, **COMMITTED) == ["second", "third"]
    # The checkpoint was set back.
    assert writer.begun(batch=0).done


def test_one_that_cannot_be_committed_keeps_the_others_back(there: Jobs, topic: str) -> None:
    there.create(topic)
    one, other = Writer(there, topic, f"{topic}-a"), Writer(there, topic, f"{topic}-b")
    mine, fenced = one.prepared("a"), other.prepared("b")
    other.begun()
    with pytest.raises(TransactionError):
        one.commit(mine, fenced)
    transactional_writes.abort(lambda: one.cluster, [mine])
    assert there.values(topic, **COMMITTED) == []


def _dying(after: int) -> type[DefaultSource]:
    """Return the sink of a driver that ends after this many commits: neither the other commits nor an abort reach a
    broker. The class is defined here, so that Spark's Python processes get it unchanged."""

    class DyingWriter(StreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            prepared = transactional_writes.prepared_in(messages)
            for one in prepared[:after]:
                transactional_writes.commit(SparkCluster(self._options.client), [one])
            raise RuntimeError("the driver dies")

        def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            pass

    class DyingSource(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return f"dying-after-{after}"

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
            return DyingWriter(write_options(self.options, streaming=True), schema)

    return DyingSource


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(0, id="before", marks=pytest.mark.slow),
        pytest.param(1, id="among"),
        pytest.param(99, id="after", marks=pytest.mark.slow),
    ],
)
def test_a_query_that_ends_among_its_commits(there: Jobs, topic: str, tmp_path: Path, after: int) -> None:
    """Between all tasks and the first commit, after the first one, after all of them and before Spark's own note of
    the batch. Restarted from its checkpoint the query has each record once."""
    source = f"{topic}-in"
    there.create(source)
    there.create(topic)
    there.write(there.rows(COUNT), source)
    incoming = there.stream(source, maxOffsetsPerTrigger="400").select("key", "value")
    sink = there.sink(topic, mode="transactions")
    dying = _dying(after)
    there.spark.dataSource.register(dying)
    with pytest.raises(Exception, match="the driver dies"):
        there.run(incoming, tmp_path / "checkpoint", dying.name(), **sink)
    if after == 0:
        assert there.values(topic, **COMMITTED) == []
    there.run(incoming, tmp_path / "checkpoint", OURS, **sink)
    assert there.values(topic, **COMMITTED) == _values()
    there.write(there.rows(COUNT, "w"), source)
    there.run(incoming, tmp_path / "checkpoint", OURS, **sink)
    expected = sorted(_values() + _values(tag="w"))
    assert there.values(topic, **COMMITTED) == expected == there.values(topic, "kafka", **COMMITTED)
