"""`pybroker archive`: writes a topic into Parquet files; each row contains its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pybroker.cli.archive.archive_bounds import bound, check_order, named_as_here
from pybroker.cli.archive.archive_plan import ArchivePlan, ArchiveRequest, WrittenPartition
from pybroker.cli.archive.folder import Folder
from pybroker.cli.archive.part_writer import PartWriter
from pybroker.cli.options import broker_options
from pybroker.cli.output import say, table, write_json
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.spark.interruption import StoppedError, stoppable
from pybroker.cli.spark.progress import Progress, progress
from pybroker.cli.spark.spark_errors import errors_as_lines, refusals_as_lines
from pybroker.cli.spark.spark_session import client_options, cluster_of, require_spark, session, verbose_option
from pybroker.cli.target import Target
from pybroker.wall_clock import wall_ms

if TYPE_CHECKING:
    from pybroker.spark.cluster_requests import SparkCluster, SparkTopic

PART_ROWS = 10_000_000


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("dest")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    callback=bound,
    help="First record: earliest, a time (ISO, UTC unless it has a zone, or milliseconds) or offsets as JSON.",
)
@click.option("--to", "end", metavar="WHERE", callback=bound, help="End, exclusive: latest, a time or offsets as JSON.")
@click.option("--master", default="local[*]", show_default=True, help="Spark master URL.")
@click.option("--mode", type=click.Choice(["error", "append", "overwrite"]), default="error", show_default=True)
@click.option(
    "--part-rows",
    type=click.IntRange(min=1),
    default=PART_ROWS,
    show_default=True,
    help="Rows per part; an interrupted run repeats at most one part.",
)
@verbose_option
@broker_options
def archive(
    *,
    topic: str,
    dest: str,
    start: dict[str, str],
    end: dict[str, str],
    master: str,
    mode: str,
    part_rows: int,
    verbose: bool,
    target: Target,
) -> None:
    """Write a topic to Parquet files.

    TOPIC is a name or an id, DEST a folder or a URL that Spark supports. The files have the columns _topic_id,
    _cluster_id, _partition, _offset and _timestamp.

    To resume an interrupted archive, run the same command again.
    """
    check_order(start, end)
    require_spark()
    with refusals_as_lines():
        cluster = cluster_of(target)
        found = topic_of(cluster, topic)
    asked = ArchiveRequest(found.id, _text(start), _text(end))

    def plan() -> ArchivePlan:
        from pybroker.spark.read_bounds import bounds_of
        from pybroker.spark.source_options import read_options

        options = {**client_options(target), "topicIds": found.id, **start, **end}
        with named_as_here(), refusals_as_lines():
            _, first, last = bounds_of(cluster, read_options(options, streaming=False))
        return ArchivePlan.of(asked, found.name, first, last, part_rows=part_rows, now_ms=wall_ms())

    def job(moving: Progress) -> dict[int, WrittenPartition]:
        with session(master, verbose=verbose) as spark:
            moving.step(spark.sparkContext)
            with errors_as_lines(dest):
                folder = Folder(spark, dest)
                made = _unfinished(folder, dest, asked, mode) or _begun(folder, dest, mode, plan)
                parts = PartWriter(spark, target, folder, made, found.partitions)
                written: dict[int, WrittenPartition] = {}
                for number in range(made.parts):
                    moving.step(spark.sparkContext, f"part {number + 1} of {made.parts}" if made.parts > 1 else "")
                    part = folder.part(number) or parts.write(number)
                    for partition, written_part in part.written.items():
                        written[partition] = written[partition] + written_part if partition in written else written_part
                folder.finish()
        return written

    try:
        with progress(f"{topic} → {dest}") as moving:
            written = stoppable(lambda: job(moving))
    except StoppedError as stopped:
        say(f"stopped; the archive in {dest} is incomplete: run the same command again to resume", err=True)
        raise click.exceptions.Exit(stopped.exit_code) from None
    _summary(found, dest, written, target)


def _text(options: dict[str, str]) -> str | None:
    """Return the text of `--from` or `--to` from which these options result."""
    return next((text for name, text in options.items() if name.endswith(("Offsets", "Timestamp"))), None)


def _unfinished(folder: Folder, dest: str, asked: ArchiveRequest, mode: str) -> ArchivePlan | None:
    """Return the unfinished plan of an earlier run. Raises click.ClickException if its arguments were different."""
    try:
        plan = folder.plan()
        if plan is None:
            return None
        if plan.asked == asked:
            there = sum(folder.part(number) is not None for number in range(plan.parts))
            said = f"resuming an unfinished archive; {there} of {plan.parts} parts exist"
            say(f"{dest}: {said}", err=True)
            return plan
    except click.ClickException:  # The plan is damaged.
        if mode != "overwrite":
            raise
        return None
    if mode == "overwrite":
        return None
    raise click.ClickException(
        f"{dest} contains another unfinished archive ({plan.topic}: {plan.asked}); run its command again to finish "
        "it, or use --mode overwrite to start over"
    )


def _begun(folder: Folder, dest: str, mode: str, plan: Callable[[], ArchivePlan]) -> ArchivePlan:
    """Write a plan into the folder. If the broker does not allow the user to read the topic, leave nothing in the
    folder."""
    if mode == "error" and folder.exists():
        raise click.ClickException(
            f"{dest} already exists; use --mode append to add to it or --mode overwrite to replace it"
        )
    made = plan()
    if mode == "overwrite":
        folder.clear()
    folder.begin(made)
    return made


def _summary(topic: SparkTopic, dest: str, written: dict[int, WrittenPartition], target: Target) -> None:
    """Print all partitions of the topic, including those without records."""
    rows = [
        {
            "partition": number,
            "first": partition and partition.first,
            "last": partition and partition.last,
            "rows": partition.rows if partition else 0,
        }
        for number in sorted({*range(topic.partitions), *written})
        for partition in (written.get(number),)
    ]
    total = sum(partition.rows for partition in written.values())
    if target.json:
        write_json({"topic": topic.name, "topic_id": topic.id, "dest": dest, "rows": total, "partitions": rows})
        return
    say(f"{topic.name} ({topic.id}) archived to {dest}: {total:,} rows")
    table(rows, ("partition", "first", "last", "rows"))


def topic_of(cluster: SparkCluster, text: str) -> SparkTopic:
    """Return the topic with this id, or else the topic with this name, because a name may look like an id.

    Raises UnknownTopicError if neither exists.
    """
    from pybroker.native import Uuid
    from pybroker.spark.topic_selection import TopicSelection

    try:
        is_id = bool(Uuid.parse(text))
    except ValueError:
        is_id = False
    by_id = cluster.existing(TopicSelection(ids=(text,))) if is_id else []
    return (by_id or cluster.subscribed(TopicSelection(names=(text,))))[0]
