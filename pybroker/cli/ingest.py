"""`pybroker ingest`: files into a topic exactly once, and the ingests that a broker knows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import click

from pybroker.cli import spark_jobs
from pybroker.cli.options import Target, broker_options, write_json
from pybroker.cli.options import table as table_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pybroker.spark.cluster import Cluster

FORMATS = ("parquet", "csv", "json", "text", "orc")
MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
"""What Spark's readers of CSV and JSON do about a line that cannot be read; the first unless told otherwise."""
SHOWN = 120
"""Characters of such a line in an error."""
VALUES = ("json", "raw", "avro")
COLUMNS = ("topic", "topic id", "ingest id", "batch", "state", "rows", "bytes", "writers")
OFFSETS = ("partition", "first", "last", "rows", "bytes")


def reader_options(_context: object, _parameter: object, given: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE of `--option`, with what holds unless it is given. Raises click.BadParameter."""
    wrong = next((each for each in given if "=" not in each.lstrip("=")), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong}: NAME=VALUE is needed, as header=true")
    options = dict(each.partition("=")[::2] for each in given)
    # Spark takes names in any case, and a mode that it does not know for PERMISSIVE.
    mode = next((options.pop(name) for name in list(options) if name.lower() == "mode"), MODES[0])
    if mode.upper() not in MODES:
        raise click.BadParameter(f"mode={mode}: one of {', '.join(MODES)} is needed")
    return {**options, "mode": mode.upper()}


def name_of_load(_context: object, _parameter: object, given: str | None) -> str | None:
    """`--ingest-id`. Raises click.BadParameter for an empty one, as of a variable that is not set."""
    if given is not None and not given.strip():
        raise click.BadParameter("is empty")
    return given


@click.group()
def ingest() -> None:
    """Load files into topics exactly once; list, show and abort ingests."""


@ingest.command()
@click.argument("src")
@click.option("--format", "kind", type=click.Choice(FORMATS), required=True, help="Of the files.")
@click.option("--topic", required=True, help="Where the rows go; it must exist.")
@click.option("--key", metavar="COLUMN", help="The column whose text is the records' key; none: no keys.")
@click.option(
    "--value",
    "encoding",
    type=click.Choice(VALUES),
    default="json",
    show_default=True,
    help="json: the row as an object; raw: the only column besides the key as it is; avro: the row in Avro's binary "
    "encoding.",
)
@click.option(
    "--ingest-id",
    callback=name_of_load,
    help="A name of this load: run again under the same name, it does nothing. Else random.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=reader_options,
    help="For Spark's reader, as header=true.",
)
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@spark_jobs.verbose_option
@broker_options
def load(
    *,
    src: str,
    kind: str,
    topic: str,
    key: str | None,
    encoding: str,
    ingest_id: str | None,
    options: dict[str, str],
    master: str,
    verbose: bool,
    target: Target,
) -> None:
    """Load the files SRC (a file, a folder or a pattern) into a topic. All rows are in it afterwards, once, or none.

    A line of CSV or JSON that cannot be read ends the load, unless --option mode=PERMISSIVE (or DROPMALFORMED) says
    otherwise; values of CSV are text, unless --option inferSchema=true.
    """
    from pybroker.spark.ingest import State

    name = ingest_id or str(uuid.uuid4())
    with spark_jobs.refusals_as_lines():
        cluster = spark_jobs.cluster_of(target)
        topic_id = _topic_id(cluster, topic)
        staged = _Staged(cluster, topic_id, name)
        before = staged.found()
    if before is not None and before.state == State.COMMITTED:
        click.echo(f"ingest {name} was committed before: nothing was written", err=True)
        _summary(before, target, {"loaded": False})
        return

    def job() -> None:
        with spark_jobs.session(master, verbose=verbose) as spark:
            with spark_jobs.errors_as_lines(f"{src} (--format {kind})"), _malformed_lines(spark, src, kind, options):
                frame = spark.read.format(kind).options(**options).load(src)
            rows = records(frame, key, encoding)
            moving = spark_jobs.progress(spark, f"{src} → {topic}", counts=staged)
            with moving, _malformed_lines(spark, src, kind, options):
                staged.begun = True
                spark_jobs.writer(rows, target, topic, {"topicId": topic_id, "ingestId": name}).save()

    try:
        spark_jobs.stoppable(job)
    except spark_jobs.StoppedError as stopped:
        click.echo(f"stopped; {staged.given_up()}", err=True)
        raise click.exceptions.Exit(stopped.exit_code) from None
    with spark_jobs.refusals_as_lines():
        committed = staged.found()
    if committed is None:
        raise click.ClickException(f"ingest {name} is not known to the broker any more")
    _summary(committed, target, {"loaded": True})


@contextmanager
def _malformed_lines(spark: SparkSession, src: str, kind: str, options: dict[str, str]) -> Iterator[None]:
    """Spark says of JSON that a line of some file cannot be read; this says which. And what to do."""
    try:
        yield
    except spark_jobs.spark_errors() as error:
        text = str(error)
        if "MALFORMED" not in text:
            raise
        broken = _broken_json(spark, src, options) if kind == "json" else None
        raise click.ClickException(
            f"{broken or spark_jobs.reason(text)} (--option mode=PERMISSIVE or DROPMALFORMED loads the others)"
        ) from None


def _broken_json(spark: SparkSession, src: str, options: dict[str, str]) -> str | None:
    # Spark refuses to read nothing but what cannot be parsed: hence a second column.
    found = (
        spark.read.format("json")
        .options(**{**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"})
        .schema("nothing string, broken string")
        .load(src)
        .where("broken IS NOT NULL")
        .select("_metadata.file_path", "broken", "nothing")
        .take(1)
    )
    if not found:
        return None
    line = found[0].broken.strip().partition("\n")[0][:SHOWN]
    return f"{spark_jobs.file_name(found[0].file_path)}: this is no JSON object: {line}"


def records(frame: DataFrame, key: str | None, encoding: str) -> DataFrame:
    """Rows as key and value. Raises click.ClickException for columns that are not there."""
    from pyspark.sql import functions

    columns = ", ".join(frame.columns)
    if key is not None and key not in frame.columns:
        raise click.ClickException(f"--key {key}: the columns are {columns}")
    if encoding == "json":
        row = functions.struct(*(spark_jobs.column_of(each) for each in frame.columns))
        value = functions.to_json(row, {"ignoreNullFields": "false"})
    elif encoding == "avro":
        from pybroker.cli.avro import avro_column

        value = avro_column(frame)
    else:
        others = [each for each in frame.columns if each != key]
        if len(others) != 1:
            raise click.ClickException(f"--value raw needs exactly one column besides the key; there are {columns}")
        value = _as_it_is(frame, others[0])
    chosen = [value.alias("value")]
    if key is not None:
        chosen.insert(0, _as_it_is(frame, key).alias("key"))
    return frame.select(*chosen)


def _as_it_is(frame: DataFrame, name: str) -> Column:
    column = spark_jobs.column_of(name)
    return column if frame.schema[name].dataType.typeName() == "binary" else column.cast("string")


@ingest.command("ls")
@click.option("--topic", help="Only of this topic, a name.")
@click.option("--open", "only_open", is_flag=True, help="Leave out those that are committed.")
@broker_options
def list_ingests(topic: str | None, only_open: bool, target: Target) -> None:
    """List ingests: open ones first, then committed ones that are remembered."""
    from pybroker.spark import ingest as steps

    with spark_jobs.refusals_as_lines():
        cluster = spark_jobs.cluster_of(target)
        ids = None if topic is None else [_topic_id(cluster, topic)]
        listed = steps.listed(cluster, ids, committed=not only_open)
    found = [_row(each) for each in sorted(listed, key=lambda each: each.state)]
    if target.json:
        write_json(found)
    else:
        table_of(found, COLUMNS)


@ingest.command()
@click.argument("ingest_id")
@broker_options
def show(ingest_id: str, target: Target) -> None:
    """Show an ingest: its state and what it holds by partition."""
    with spark_jobs.refusals_as_lines():
        found = _find(spark_jobs.cluster_of(target), ingest_id)
    if not found:
        raise click.ClickException(f"there is no ingest {ingest_id}")
    if target.json:
        write_json([_details(each) for each in found])
    else:
        for each in found:
            _summary(each, target)


@ingest.command()
@click.argument("ingest_id")
@click.option("--topic", help="Its topic, where several have an ingest of that name.")
@broker_options
def abort(ingest_id: str, topic: str | None, target: Target) -> None:
    """Drop what an open ingest has staged. What is committed stays."""
    from pybroker.spark import ingest as steps

    with spark_jobs.refusals_as_lines():
        cluster = spark_jobs.cluster_of(target)
        wanted = None if topic is None else _topic_id(cluster, topic)
        found = [each for each in _find(cluster, ingest_id) if wanted in (None, str(each.topic_id))]
        if not found:
            raise click.ClickException(f"there is no ingest {ingest_id}")
        if len({str(each.topic_id) for each in found}) > 1:
            raise click.ClickException(f"several topics have an ingest {ingest_id}: say which by --topic")
        for each in found:
            state = steps.abort(cluster, str(each.topic_id), ingest_id, each.batch_id)
            if state is not steps.State.ABSENT:
                raise click.ClickException(f"ingest {ingest_id} is {state.name.lower()}: its records are in the topic")
    click.echo(f"aborted {ingest_id}")


# ---- parts


def _topic_id(cluster: Cluster, name: str) -> str:
    found = cluster.topics_named([name]).get(name)
    if found is None:
        raise click.ClickException(f"there is no topic {name}")
    return found.id


def _find(cluster: Cluster, ingest_id: str) -> list[Any]:
    from pybroker.spark import ingest as steps

    return steps.listed(cluster, ingest_id=ingest_id)


def _row(each: Any) -> dict[str, object]:
    from pybroker.spark.ingest import State

    return {
        "topic": each.topic_name,
        "topic id": str(each.topic_id),
        "ingest id": each.ingest_id,
        "batch": None if each.batch_id < 0 else each.batch_id,
        "state": State(each.state).name.lower(),
        "rows": each.rows,
        "bytes": each.bytes,
        "writers": each.writers,
    }


def _details(each: Any) -> dict[str, object]:
    rows = [
        {
            "partition": part.partition,
            "first": part.base_offset if part.base_offset >= 0 else None,
            "last": part.end_offset - 1 if part.end_offset > 0 else None,
            "rows": part.rows,
            "bytes": part.bytes,
        }
        for part in sorted(each.partitions, key=lambda part: part.partition)
    ]
    return {**_row(each), "partitions": rows}


def _summary(each: Any, target: Target, more: dict[str, object] | None = None) -> None:
    """`more` is for JSON."""
    told = {**_details(each), **(more or {})}
    if target.json:
        write_json(told)
        return
    click.echo(
        f"{told['ingest id']} into {told['topic']} ({told['topic id']}): {told['state']}, {each.rows:,} rows, "
        f"{each.bytes:,} bytes"
    )
    table_of(cast("list[dict[str, object]]", told["partitions"]), OFFSETS)


class _Staged:
    """Rows and bytes that the broker has staged for a load; asked while the job runs."""

    def __init__(self, cluster: Cluster, topic_id: str, ingest_id: str) -> None:
        self._cluster, self._topic_id, self._ingest_id = cluster, topic_id, ingest_id
        self._last = (0, 0)
        self.begun = False

    def given_up(self) -> str:
        """Drops what is staged, unless that is decided; says what holds. Not through Spark, which may be gone."""
        from pybroker.native import NativeError
        from pybroker.spark import ingest as steps
        from pybroker.spark.errors import SparkSourceError

        if not self.begun:
            return f"ingest {self._ingest_id} had not begun, nothing was written"
        try:
            state = steps.abort(self._cluster, self._topic_id, self._ingest_id)
        except (NativeError, SparkSourceError) as error:
            return f"ingest {self._ingest_id} could not be aborted, `pybroker ingest abort` does so later: {error}"
        if state is steps.State.ABSENT:
            return f"ingest {self._ingest_id} was aborted, nothing is in the topic"
        return f"ingest {self._ingest_id} is {state.name.lower()}: its records are in the topic"

    def found(self) -> Any | None:
        """The load as the broker knows it: other topics, and streams, may have ingests of the same name."""
        from pybroker.spark import ingest as steps

        listed = steps.listed(self._cluster, [self._topic_id], self._ingest_id)
        return next((each for each in listed if each.batch_id == steps.NO_BATCH), None)

    def __call__(self) -> tuple[int, int]:
        from pybroker.native import NativeError
        from pybroker.spark.errors import SparkSourceError

        try:
            found = self.found()
        except (NativeError, SparkSourceError):
            return self._last  # the job itself says what is wrong; the bar just stands
        if found is not None:
            self._last = (found.rows, found.bytes)
        return self._last
