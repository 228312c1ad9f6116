"""Rows of files as records: key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.cli.ingest.preview import check_columns
from pybroker.cli.spark.session import column_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def records(frame: DataFrame, key: str | None, encoding: str) -> DataFrame:
    """Return rows as key and value. Raises click.ClickException for missing columns."""
    from pyspark.sql import functions

    check_columns(frame.columns, key, encoding)
    if encoding == "json":
        row = functions.struct(*(column_of(each) for each in frame.columns))
        value = functions.to_json(row, {"ignoreNullFields": "false"})
    elif encoding == "avro":
        from pybroker.cli.ingest.avro import avro_column

        value = avro_column(frame)
    else:
        (only,) = (each for each in frame.columns if each != key)
        value = _as_it_is(frame, only)
    chosen = [value.alias("value")]
    if key is not None:
        chosen.insert(0, _as_it_is(frame, key).alias("key"))
    return frame.select(*chosen)


def _as_it_is(frame: DataFrame, name: str) -> Column:
    column = column_of(name)
    return column if frame.schema[name].dataType.typeName() == "binary" else column.cast("string")
