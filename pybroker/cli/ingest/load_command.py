"""`pybroker ingest load`: files into a topic exactly once."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import click

from pybroker.cli.ingest.ingest_output import summary
from pybroker.cli.ingest.input_files import FORMATS, Files, reader_options, records
from pybroker.cli.ingest.preview import Preview
from pybroker.cli.ingest.staged_progress import StagedProgress
from pybroker.cli.options import broker_options
from pybroker.cli.output import say
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.spark.interruption import StoppedError, stoppable
from pybroker.cli.spark.progress import Progress, progress
from pybroker.cli.spark.spark_errors import refusals_as_lines
from pybroker.cli.spark.spark_session import client_options, cluster_of, require_spark, session, verbose_option, writer
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import absent_topic

if TYPE_CHECKING:
    from pybroker.spark.cluster_requests import SparkCluster
    from pybroker.spark.source_options import WriteOptions

VALUES = ("json", "raw", "avro")


def name_of_load(_context: object, _parameter: object, value: str | None) -> str | None:
    """Check `--ingest-id`. Raises click.BadParameter for an empty id, for example from an unset variable."""
    if value is not None and not value.strip():
        raise click.BadParameter("is empty")
    return value


@click.command()
@click.argument("src")
@click.option("--format", "kind", type=click.Choice(FORMATS), required=True, help="Format of the files.")
@click.option("--topic", required=True, metavar="NAME", shell_complete=topic_names, help="Topic to write to.")
@click.option("--create-topic", is_flag=True, help="Create the topic if it does not exist.")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Partitions of a created topic; default: the broker's setting."
)
@click.option("--key", metavar="COLUMN", help="Column to use as the record key; default: no key.")
@click.option(
    "--value",
    "encoding",
    type=click.Choice(VALUES),
    default="json",
    show_default=True,
    help=(
        "Encoding of values. json: the row as an object; raw: the only column besides the key; avro: the row in "
        "Avro binary."
    ),
)
@click.option(
    "--ingest-id",
    callback=name_of_load,
    help="Name of this load; a second run with the same name does nothing. Default: random.",
)
@click.option("--header", is_flag=True, help="CSV: read the column names from the first line of each file.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=reader_options,
    help="Option of Spark's reader, such as sep=; (repeatable).",
)
@click.option("--master", default="local[*]", show_default=True, help="Spark master URL.")
@verbose_option
@broker_options
def load(
    *,
    src: str,
    kind: str,
    topic: str,
    create_topic: bool,
    partitions: int | None,
    key: str | None,
    encoding: str,
    ingest_id: str | None,
    header: bool,
    options: dict[str, str],
    master: str,
    verbose: bool,
    target: Target,
) -> None:
    """Load files into a topic exactly once.

    SRC is a file, a folder or a pattern. Either all rows become visible or none.

    An unreadable line of CSV or JSON ends the load, unless --option mode=PERMISSIVE or mode=DROPMALFORMED is given.
    Values of CSV files are text, unless --option inferSchema=true is given.
    """
    from pybroker.spark.ingest_steps import LoadState
    from pybroker.spark.write_target import pinned_topic

    if partitions is not None and not create_topic:
        raise click.UsageError("--partitions requires --create-topic.")
    if header:
        if kind != "csv" or any(each.lower() == "header" for each in options):
            raise click.UsageError("--header works only with --format csv and without --option header=….")
        options["header"] = "true"
    require_spark()
    if encoding == "avro":
        require_spark("fastavro")  # Spark's workers need fastavro.
    hint = Preview(src, kind, options).check(key, encoding)
    name = ingest_id or str(uuid.uuid4())
    with refusals_as_lines():
        cluster = cluster_of(target)
        wanted = _topic_options(target, topic, create_topic, partitions)
        staged = StagedProgress(cluster, _existing(target, cluster, topic, wanted), name)
        before = staged.found()
    if before is not None and before.state == LoadState.COMMITTED:
        say(f"ingest {name} was already committed; nothing was written", err=True)
        summary(before, target, {"loaded": False})
        return

    if hint is not None:
        say(hint, err=True)

    def job(moving: Progress) -> None:
        with session(master, verbose=verbose) as spark:
            moving.step(spark.sparkContext, "inspecting the files")
            files = Files(spark, src, kind, options)
            rows = records(files.frame(), key, encoding)
            moving.step(spark.sparkContext)
            with files.malformed_lines(), refusals_as_lines():
                topic_id = staged.topic_id = staged.topic_id or pinned_topic(cluster, wanted).id
                staged.begun = True
                writer(rows, target, topic, {"topicId": topic_id, "ingestId": name}).save()

    try:
        with progress(f"{src} → {topic}", counts=staged) as moving:
            stoppable(lambda: job(moving))
    except StoppedError as stopped:
        say(f"stopped; {staged.given_up()}", err=True)
        raise click.exceptions.Exit(stopped.exit_code) from None
    with refusals_as_lines():
        committed = staged.found()
    if committed is None:
        raise click.ClickException(f"The broker no longer knows ingest {name}; check whether the topic was deleted.")
    summary(committed, target, {"loaded": True})


def _topic_options(target: Target, topic: str, create: bool, partitions: int | None) -> WriteOptions:
    from pybroker.spark.source_options import write_options

    wanted = {"createTopic": "true"} if create else {}
    if partitions is not None:
        wanted["topicPartitions"] = str(partitions)
    return write_options({**client_options(target), "topic": topic, **wanted})


def _existing(target: Target, cluster: SparkCluster, topic: str, wanted: WriteOptions) -> str | None:
    """Return the topic's id; None if the load may create it. Raises click.ClickException if it does not exist and may
    not be created."""
    from pybroker.spark.write_target import check_new_topic

    found = cluster.topics_named([topic]).get(topic)
    if found is not None:
        return found.id
    if wanted.new_topic is None:
        raise click.ClickException(f"{absent_topic(target, topic)} Use --create-topic to create it.")
    check_new_topic(cluster, topic, wanted.new_topic)
    return None
