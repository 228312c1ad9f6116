"""`pybroker ingest`: files into a topic exactly once, and the ingests that a broker knows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.options import Target, broker_options, write_json
from pybroker.cli.options import table as table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pybroker.spark.cluster import Cluster

FORMATS = ("parquet", "csv", "json", "text", "orc")
VALUES = ("json", "raw", "avro")
COLUMNS = ("topic", "topic id", "ingest id", "batch", "state", "rows", "bytes", "writers")
OFFSETS = ("partition", "first", "last", "rows", "bytes")


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
    help="json: the row as an object; raw: the column value (or the only one) as it is; avro: the row in Avro's binary "
    "encoding.",
)
@click.option("--ingest-id", help="A name of this load: run again under the same name, it does nothing. Else random.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="For Spark's reader, as header=true.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@broker_options
def load(
    *,
    src: str,
    kind: str,
    topic: str,
    key: str | None,
    encoding: str,
    ingest_id: str | None,
    options: tuple[str, ...],
    master: str,
    target: Target,
) -> None:
    """Load the files SRC (a file, a folder or a pattern) into a topic. All rows are in it afterwards, once, or none."""
    from pybroker.cli import spark_jobs

    name = ingest_id or str(uuid.uuid4())
    with spark_jobs.session(master) as spark, spark_jobs.errors_as_lines():
        given = dict(each.partition("=")[::2] for each in options)
        if kind in ("csv", "json"):
            given.setdefault("inferSchema", "true")
        frame = records(spark.read.format(kind).options(**given).load(src), key, encoding)
        with errors_as_lines():
            cluster = cluster_of(target)
        counts = _Staged(cluster, name)
        with spark_jobs.progress(spark, f"{src} → {topic}", counts=counts):
            spark_jobs.writer(frame, target, topic, {"ingestId": name}).save()
    with errors_as_lines():
        found = _find(cluster, name)
    committed = found[-1] if found else None
    if committed is None:
        raise click.ClickException(f"ingest {name} is not known to the broker any more")
    _summary(committed, target)


def records(frame: DataFrame, key: str | None, encoding: str) -> DataFrame:
    """Rows as key and value. Raises click.ClickException for columns that are not there."""
    from pyspark.sql import functions

    if key is not None and key not in frame.columns:
        raise click.ClickException(f"--key {key}: the columns are {', '.join(frame.columns)}")
    if encoding == "json":
        value = functions.to_json(functions.struct(*frame.columns), {"ignoreNullFields": "false"})
    elif encoding == "avro":
        from pybroker.cli.avro import avro_column

        value = avro_column(frame)
    else:
        column = "value" if "value" in frame.columns else frame.columns[0]
        if column != "value" and len(set(frame.columns) - {key}) != 1:
            raise click.ClickException(
                f"--value raw needs a column value, or one column besides the key; there are {', '.join(frame.columns)}"
            )
        if column == key:
            column = next((each for each in frame.columns if each != key), column)
        value = functions.col(column)
        if frame.schema[column].dataType.typeName() != "binary":
            value = value.cast("string")
    chosen = [value.alias("value")]
    if key is not None:
        text = functions.col(key)
        if frame.schema[key].dataType.typeName() != "binary":
            text = text.cast("string")
        chosen.insert(0, text.alias("key"))
    return frame.select(*chosen)


@ingest.command("ls")
@click.option("--topic", help="Only of this topic, a name.")
@click.option("--open", "only_open", is_flag=True, help="Leave out those that are committed.")
@broker_options
def list_ingests(topic: str | None, only_open: bool, target: Target) -> None:
    """List ingests: open ones, and committed ones that are remembered."""
    from pybroker.spark import ingest as steps

    with errors_as_lines():
        cluster = cluster_of(target)
        ids = None if topic is None else [_topic_id(cluster, topic)]
        found = [_row(each) for each in steps.listed(cluster, ids, committed=not only_open)]
    if target.json:
        write_json(found)
    else:
        table_of(found, COLUMNS)


@ingest.command()
@click.argument("ingest_id")
@broker_options
def show(ingest_id: str, target: Target) -> None:
    """Show an ingest: its state and what it holds by partition."""
    with errors_as_lines():
        found = _find(cluster_of(target), ingest_id)
    if not found:
        raise click.ClickException(f"there is no ingest {ingest_id}")
    for each in found:
        _summary(each, target)


@ingest.command()
@click.argument("ingest_id")
@click.option("--topic", help="Its topic, where several have an ingest of that name.")
@broker_options
def abort(ingest_id: str, topic: str | None, target: Target) -> None:
    """Drop what an open ingest has staged. What is committed stays."""
    from pybroker.spark import ingest as steps

    with errors_as_lines():
        cluster = cluster_of(target)
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


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """What the broker refuses is one line."""
    from pybroker.native import NativeError
    from pybroker.spark.errors import SparkSourceError

    try:
        yield
    except (NativeError, SparkSourceError) as error:
        raise click.ClickException(str(error)) from None


def cluster_of(target: Target) -> Cluster:
    """The cluster that the options name."""
    from pybroker.spark.cluster import Cluster

    return Cluster({name: str(value) for name, value in target.client_config().items()})


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


def _summary(each: Any, target: Target) -> None:
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
    if target.json:
        write_json({**_row(each), "partitions": rows})
        return
    head = _row(each)
    click.echo(
        f"{head['ingest id']} into {head['topic']} ({head['topic id']}): {head['state']}, {each.rows:,} rows, "
        f"{each.bytes:,} bytes"
    )
    table_of(rows, OFFSETS)


class _Staged:
    """Rows and bytes that the broker has staged for an ingest; asked while the job runs."""

    def __init__(self, cluster: Cluster, ingest_id: str) -> None:
        self._cluster, self._ingest_id = cluster, ingest_id
        self._last = (0, 0)

    def __call__(self) -> tuple[int, int]:
        from pybroker.native import NativeError
        from pybroker.spark.errors import SparkSourceError

        try:
            found = _find(self._cluster, self._ingest_id)
        except (NativeError, SparkSourceError):
            return self._last  # the job itself says what is wrong; the bar just stands
        if found:
            self._last = (found[-1].rows, found[-1].bytes)
        return self._last
