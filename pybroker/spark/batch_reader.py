"""Batch reads, and the reading of a range in a task."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pybroker.native import ArrowSource, NativeError, SourceRange, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark import read_bounds
from pybroker.spark.checkpoint_positions import StreamPosition
from pybroker.spark.cluster_requests import EARLIEST, SparkCluster
from pybroker.spark.offset_ranges import OffsetRange, split
from pybroker.spark.source_errors import DataLossError, TopicChangedError
from pybroker.spark.source_options import ReadOptions
from pybroker.spark.token_source import with_token

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """One task's range of offsets, by topic id. The task must not read another incarnation of the name."""

    def __init__(self, offsets: OffsetRange, cluster_id: str) -> None:
        super().__init__(None)
        self.offsets = offsets
        self.cluster_id = cluster_id


def ranges_between(start: StreamPosition, end: StreamPosition) -> list[OffsetRange]:
    """Return the ranges between two positions of the same partitions."""
    return [
        OffsetRange(topic_id, name, partition, at, until)
        for topic_id, name, partition, until in end
        if (at := start.get(topic_id, partition)) is not None
    ]


class TaskReader:
    """Reads one range in a task; Spark pickles it to the executors."""

    def __init__(self, client: Mapping[str, str], schema: StructType, *, fail_on_data_loss: bool) -> None:
        self._client = dict(client)
        self._schema = schema
        self._fail_on_data_loss = fail_on_data_loss

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches of the range. Raises TopicChangedError, DataLossError, NativeError."""
        if not isinstance(partition, RangePartition):
            return  # Spark's placeholder if there are no partitions.
        wanted = partition.offsets
        start = wanted.start
        while start < wanted.end:
            source = self._source(partition, start)
            try:
                yield from self._batches(source)
                return
            except NativeError as error:
                start = self._after(error, wanted, source.position)

    def _source(self, partition: RangePartition, start: int) -> ArrowSource:
        wanted = partition.offsets
        offsets = SourceRange(Uuid.parse(wanted.topic_id), wanted.topic, wanted.partition, start=start, end=wanted.end)
        return ArrowSource(with_token(self._client), offsets, list(self._schema.fieldNames()), partition.cluster_id)

    def _batches(self, source: ArrowSource) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        # Spark compares the whole schema, including nullability and the names of nested fields (SPARK-55583).
        expected = to_arrow_schema(self._schema, timezone="UTC")
        while (rows := source.next()) is not None:
            yield pa.RecordBatch.from_arrays(pa.record_batch(rows).columns, schema=expected)

    def _after(self, error: NativeError, wanted: OffsetRange, position: int) -> int:
        """Return the offset at which to continue after an error that `failOnDataLoss=false` allows."""
        place = f"{wanted.topic} ({wanted.topic_id}) partition {wanted.partition}"
        if error.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise TopicChangedError(f"{place} was deleted or re-created during the read: {error}") from None
        if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise error
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{place}: offset {position} no longer exists (the read ends at {wanted.end}): {error}; use "
                "failOnDataLoss=false to read existing records only"
            ) from None
        cluster = SparkCluster(self._client, waits=True)
        topic = cluster.topics_with_ids([wanted.topic_id]).get(wanted.topic_id)
        if topic is None:
            raise TopicChangedError(f"{place} was deleted during the read: {error}") from None
        first = cluster.offsets([(topic, wanted.partition, EARLIEST)])[topic.id, wanted.partition]
        warnings.warn(f"{place}: records at offsets {position} to {first} were removed", stacklevel=2)
        return first if first > position else wanted.end


class BatchReader(DataSourceReader):
    """`spark.read.format("pybroker")`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._task = TaskReader(options.client, schema, fail_on_data_loss=options.fail_on_data_loss)

    def partitions(self) -> list[InputPartition]:
        options = self._options
        cluster = SparkCluster(options.client, waits=True)
        _, start, end = read_bounds.bounds_of(cluster, options)
        ranges = split(ranges_between(start, end), options.min_partitions, options.max_records_per_partition)
        return [RangePartition(each, cluster.id) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.read(partition)
