"""`pybroker ingest load`: files into a topic exactly once."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import click

from pybroker.cli.completion import topic_names
from pybroker.cli.ingest.files import FORMATS, Files, reader_options
from pybroker.cli.ingest.known import topic_id_of
from pybroker.cli.ingest.rows import records
from pybroker.cli.ingest.shown import summary
from pybroker.cli.ingest.staged import Staged
from pybroker.cli.options import broker_options
from pybroker.cli.output import say
from pybroker.cli.spark.progress import Progress, progress
from pybroker.cli.spark.refusals import refusals_as_lines
from pybroker.cli.spark.session import client_options, cluster_of, require_spark, session, verbose_option, writer
from pybroker.cli.spark.stopping import StoppedError, stoppable
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.spark.cluster import Cluster

VALUES = ("json", "raw", "avro")


def name_of_load(_context: object, _parameter: object, given: str | None) -> str | None:
    """`--ingest-id`. Raises click.BadParameter for an empty one, as of a variable that is not set."""
    if given is not None and not given.strip():
        raise click.BadParameter("is empty")
    return given


@click.command()
@click.argument("src")
@click.option("--format", "kind", type=click.Choice(FORMATS), required=True, help="Of the files.")
@click.option("--topic", required=True, metavar="NAME", shell_complete=topic_names, help="Where the rows go.")
@click.option("--create-topic", is_flag=True, help="Make the topic if it is not there.")
@click.option("--partitions", type=click.IntRange(min=1), help="Of a topic that is made; else the broker's default.")
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

    if partitions is not None and not create_topic:
        raise click.UsageError("--partitions is for --create-topic.")
    require_spark()
    name = ingest_id or str(uuid.uuid4())
    with refusals_as_lines():
        cluster = cluster_of(target)
        if create_topic:
            topic_id = _made(target, cluster, topic, partitions)
        else:
            topic_id = topic_id_of(cluster, topic, "; --create-topic makes it")
        staged = Staged(cluster, topic_id, name)
        before = staged.found()
    if before is not None and before.state == State.COMMITTED:
        say(f"ingest {name} was committed before: nothing was written", err=True)
        summary(before, target, {"loaded": False})
        return

    def job(moving: Progress) -> None:
        with session(master, verbose=verbose) as spark:
            moving.step(spark.sparkContext, "looking at the files")
            files = Files(spark, src, kind, options)
            rows = records(files.frame(), key, encoding)
            moving.step(spark.sparkContext)
            with files.malformed_lines():
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
        raise click.ClickException(f"ingest {name} is not known to the broker any more")
    summary(committed, target, {"loaded": True})


def _made(target: Target, cluster: Cluster, topic: str, partitions: int | None) -> str:
    """The topic's id; it is made if it is not there."""
    from pybroker.spark.options import write_options
    from pybroker.spark.target import pinned_topic

    wanted = {} if partitions is None else {"topicPartitions": str(partitions)}
    options = write_options({**client_options(target), "topic": topic, "createTopic": "true", **wanted})
    return pinned_topic(cluster, options).id
