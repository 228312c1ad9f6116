"""`pybroker archive`: a topic into Parquet files, each row with where it came from."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from pybroker.cli import spark_jobs
from pybroker.cli.options import Target, broker_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pybroker.spark.cluster import Cluster, Topic

LINEAGE = {
    "_topic_id": "topic_id",
    "_cluster_id": "cluster_id",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}
COUNTED = "_topic_id string, _partition int, _offset bigint"
WORDS = {"--from": "earliest", "--to": "latest"}
PREFIXES = {"--from": "starting", "--to": "ending"}
OURS = {
    **{f"{prefix}{what}": name for name, prefix in PREFIXES.items() for what in ("Offsets", "Timestamp")},
    "failOnDataLoss=false reads what is there": "--from and --to must lie within them",
}
MS_DIGITS = 13
"""Of milliseconds since 1970, from 2001 to 2286: with other digits seconds or a date may be meant."""


def bound(_context: click.Context | None, parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """The options of the data source for `--from` or `--to`: a word, a time or offsets as JSON.

    Raises click.BadParameter.
    """
    name = parameter.opts[0]
    prefix, word = PREFIXES[name], WORDS[name]
    if text is None:
        return {}
    if text == word:
        return {f"{prefix}Offsets": text}
    if text.startswith("{"):
        return {f"{prefix}Offsets": _offsets(text)}
    # Where no record is that young there is nothing to read.
    later = {"startingOffsetsByTimestampStrategy": "latest"} if name == "--from" else {}
    return {f"{prefix}Timestamp": str(_milliseconds(text, word)), **later}


def _offsets(text: str) -> str:
    try:
        for places in json.loads(text).values():
            for partition, offset in places.items():
                int(partition), int(offset)
    except (AttributeError, TypeError, ValueError):
        raise click.BadParameter(f'{text}: an object like {{"topic": {{"0": 5}}}} is needed') from None
    return text


def _milliseconds(text: str, word: str) -> int:
    if text.isdecimal():
        if len(text) != MS_DIGITS:
            raise click.BadParameter(
                f"{text}: write milliseconds since 1970 with {MS_DIGITS} digits, or a date as 2026-11-01"
            )
        return int(text)
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text}: {word}, an ISO time (UTC unless it has an offset), milliseconds since 1970 or offsets as JSON "
            "are needed"
        ) from None
    since = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    milliseconds = (since - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    if milliseconds < 0:
        raise click.BadParameter(f"{text}: records have times from 1970 on")
    return milliseconds


def _check_order(start: dict[str, str], end: dict[str, str]) -> None:
    """Raises click.ClickException for times between which there is nothing."""
    first, last = (int(each.get(name, -1)) for each, name in ((start, "startingTimestamp"), (end, "endingTimestamp")))
    if 0 <= last <= first:
        said = [dt.datetime.fromtimestamp(each / 1000, dt.UTC).isoformat() for each in (first, last)]
        raise click.ClickException(f"--from {said[0]} is not before --to {said[1]}")


@click.command()
@click.argument("topic")
@click.argument("dest")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    callback=bound,
    help="earliest, a time (ISO, UTC unless it has an offset, or milliseconds) or offsets as JSON.",
)
@click.option("--to", "end", metavar="WHERE", callback=bound, help="latest, a time or offsets as JSON; exclusive.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("--mode", type=click.Choice(["error", "append", "overwrite"]), default="error", show_default=True)
@spark_jobs.verbose_option
@broker_options
def archive(
    *,
    topic: str,
    dest: str,
    start: dict[str, str],
    end: dict[str, str],
    master: str,
    mode: str,
    verbose: bool,
    target: Target,
) -> None:
    """Write TOPIC (an id or a name) as Parquet files into DEST (a folder or an URL that Spark knows), with the columns
    _topic_id, _cluster_id, _partition, _offset and _timestamp."""
    _check_order(start, end)
    with spark_jobs.refusals_as_lines():
        found = topic_of(spark_jobs.cluster_of(target), topic)
    names = {source: name for name, source in LINEAGE.items()}
    wanted = [f"`{column}` AS `{names.get(column, column)}`" for column in spark_jobs.ARCHIVED]

    def written_by_partition() -> dict[int, dict[str, object]]:
        with _named_as_here(), spark_jobs.session(master, verbose=verbose) as spark:
            earlier = _files(spark, dest) if mode == "append" else set()
            frame = spark_jobs.reader(spark, target, found.id, {**start, **end}).load().selectExpr(*wanted)
            # A read that is refused leaves nothing behind: Spark makes the folder before it plans.
            frame.rdd.getNumPartitions()
            with spark_jobs.errors_as_lines(dest), spark_jobs.progress(spark, f"{topic} → {dest}"):
                frame.write.mode(mode).option("compression", "zstd").parquet(dest)
            return _written(spark, dest, _files(spark, dest) - earlier)

    try:
        written = spark_jobs.stoppable(written_by_partition)
    except spark_jobs.StoppedError as stopped:
        click.echo(f"stopped; what is in {dest} is not the whole archive", err=True)
        raise click.exceptions.Exit(stopped.exit_code) from None
    nothing = {"first": None, "last": None, "rows": 0}
    spark_jobs.show(
        [
            {"topic id": found.id, "partition": number, **written.get(number, nothing)}
            for number in sorted({*range(found.partitions), *written})
        ],
        ("topic id", "partition", "first", "last", "rows"),
        as_json=target.json,
    )


@contextmanager
def _named_as_here() -> Iterator[None]:
    """The data source speaks of its own options."""
    try:
        yield
    except click.ClickException as error:
        text = error.message
        for theirs, here in OURS.items():
            text = text.replace(theirs, here)
        raise click.ClickException(text) from None


def topic_of(cluster: Cluster, text: str) -> Topic:
    """The topic of an id; else that of a name, which may look like an id.

    Raises TopicChangedError if there is none.
    """
    from pybroker.native import Uuid
    from pybroker.spark.selection import Subscription

    try:
        is_id = bool(Uuid.parse(text))
    except ValueError:
        is_id = False
    by_id = cluster.existing(Subscription(ids=(text,))) if is_id else []
    return (by_id or cluster.subscribed(Subscription(names=(text,))))[0]


def _files(spark: SparkSession, dest: str) -> set[str]:
    """The names of the files of an archive; none if it is not there yet."""
    from pyspark.errors import AnalysisException

    try:
        paths = spark.read.schema(COUNTED).parquet(dest).inputFiles()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return set()
    return {path.rpartition("/")[2] for path in paths}


def _written(spark: SparkSession, dest: str, files: set[str]) -> dict[int, dict[str, object]]:
    """What some files of an archive hold, by partition."""
    from pyspark.sql import functions

    rows = (
        spark.read.schema(COUNTED)
        .parquet(dest)
        .where(functions.col("_metadata.file_name").isin(*files))
        .groupBy("_partition")
        .agg(
            functions.min("_offset").alias("first"),
            functions.max("_offset").alias("last"),
            functions.count("*").alias("rows"),
        )
        .collect()
    )
    return {row["_partition"]: {"first": row["first"], "last": row["last"], "rows": row["rows"]} for row in rows}
