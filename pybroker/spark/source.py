"""The entry point `format("pybroker")`. Spark finds it through the package `pyspark_pybroker`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pybroker.spark.batch_reader import BatchReader
from pybroker.spark.batch_writer import BatchWriter
from pybroker.spark.source_errors import OptionError
from pybroker.spark.source_options import read_options, write_options
from pybroker.spark.stream_reader import NAME, StreamReader
from pybroker.spark.stream_writer import StreamWriter

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "topic_id": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
    "cluster_id": StringType(),
}


class DefaultSource(DataSource):
    """Kafka topics by id; options and columns follow Spark's Kafka source (docs/spark.md)."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        # Batch and streaming reads have the same columns. Spark does not say here which of the two it wants.
        columns = read_options(self.options, streaming=None).columns
        return StructType([StructField(name, TYPES[name]) for name in columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(self.options, streaming=False), _checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(read_options(self.options, streaming=True), _checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError('writes can only append to a topic; use .mode("append")')
        return BatchWriter(write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamWriter(write_options(self.options, streaming=True), schema)


def _checked(schema: StructType) -> StructType:
    """Check the user's schema. It may omit columns, but not change them. Raises OptionError."""
    for column in schema:
        kind = TYPES.get(column.name)
        type_name = column.dataType.simpleString()
        if kind is None:
            raise OptionError(f"unknown column {column.name}")
        if kind.simpleString() != type_name:
            raise OptionError(f"column {column.name} is read as {kind.simpleString()}, not as {type_name}")
    return schema
