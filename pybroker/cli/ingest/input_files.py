"""Reads the files of a load with Spark: options of its readers, and a search for malformed lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from pybroker.cli.ingest.preview import check_columns
from pybroker.cli.spark.spark_errors import errors_as_lines, file_name, reason, spark_errors
from pybroker.cli.spark.spark_session import column_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "text", "orc")
MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
"""Handling of malformed lines by Spark's readers of CSV and JSON; the first is the default."""
SHOWN = 120
"""Characters of a malformed line in an error message."""


def reader_options(_context: object, _parameter: object, values: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE of `--option` and add defaults. Raises click.BadParameter."""
    wrong = next((each for each in values if "=" not in each.lstrip("=")), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong}: expected NAME=VALUE, such as header=true")
    options = dict(each.partition("=")[::2] for each in values)
    # Spark ignores the case of names, and treats an unknown mode as PERMISSIVE.
    mode = next((options.pop(name) for name in list(options) if name.lower() == "mode"), MODES[0])
    if mode.upper() not in MODES:
        raise click.BadParameter(f"mode={mode}: expected one of {', '.join(MODES)}")
    return {**options, "mode": mode.upper()}


class Files:
    """The files of a load."""

    def __init__(self, spark: SparkSession, src: str, kind: str, options: dict[str, str]) -> None:
        self._spark, self._src, self._kind, self._options = spark, src, kind, options

    def frame(self) -> DataFrame:
        """Return the rows. Raises click.ClickException, which names the files or a malformed line."""
        with errors_as_lines(f"{self._src} (--format {self._kind})"), self.malformed_lines():
            return self._spark.read.format(self._kind).options(**self._options).load(self._src)

    @contextmanager
    def malformed_lines(self) -> Iterator[None]:
        """Add the malformed line and a remedy to Spark's error message, which for JSON does not contain the line."""
        try:
            yield
        except spark_errors() as error:
            text = str(error)
            if "MALFORMED" not in text:
                raise
            broken = self._broken_json() if self._kind == "json" else None
            raise click.ClickException(
                f"{broken or reason(text)} (to load the other lines, use --option mode=PERMISSIVE or DROPMALFORMED)"
            ) from None

    def _broken_json(self) -> str | None:
        # Spark refuses to read the column of malformed lines alone: read a second column with it.
        found = (
            self._spark.read.format("json")
            .options(**{**self._options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"})
            .schema("nothing string, broken string")
            .load(self._src)
            .where("broken IS NOT NULL")
            .select("_metadata.file_path", "broken", "nothing")
            .take(1)
        )
        if not found:
            return None
        line = found[0].broken.strip().partition("\n")[0][:SHOWN]
        return f"{file_name(found[0].file_path)}: not a JSON object: {line}"


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
