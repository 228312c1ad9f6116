"""`pybroker ingest list | describe | abort`: the ingests of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.grammar import named
from pybroker.cli.ingest.ingest_output import COLUMNS, details, row, summary
from pybroker.cli.options import broker_options
from pybroker.cli.output import say, table, write_json
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.spark.spark_errors import refusals_as_lines
from pybroker.cli.spark.spark_session import cluster_of
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import absent_topic

if TYPE_CHECKING:
    from pybroker.spark.cluster_requests import SparkCluster


@click.command("list")
@named("topic", "NAME", "List only ingests of this topic.", required=False, complete=topic_names)
@click.option("--open", "only_open", is_flag=True, help="Omit committed ingests.")
@broker_options
def list_ingests(topic: str | None, only_open: bool, target: Target) -> None:
    """List ingests.

    Open ingests come first, then committed ingests that the broker remembers.
    """
    from pybroker.spark import ingest_steps as steps

    with refusals_as_lines():
        cluster = cluster_of(target)
        ids = None if topic is None else [topic_id_of(target, cluster, topic)]
        listed = steps.listed(cluster, ids, committed=not only_open)
    found = [row(each) for each in sorted(listed, key=lambda each: each.state)]
    if target.json:
        write_json(found)
    else:
        table(found, COLUMNS)


@click.command()
@named("ingest_id", "ID", "Name of the ingest.")
@broker_options
def describe(ingest_id: str, target: Target) -> None:
    """Show the state and the contents of an ingest by partition."""
    with refusals_as_lines():
        found = _find(cluster_of(target), ingest_id)
    if not found:
        raise click.ClickException(f"There is no ingest {ingest_id}.")
    if target.json:
        write_json([details(each) for each in found])
    else:
        for each in found:
            summary(each, target)


@click.command()
@named("ingest_id", "ID", "Name of the ingest.")
@click.option(
    "--topic",
    metavar="NAME",
    shell_complete=topic_names,
    help="Topic of the ingest; required if several topics have an ingest of that name.",
)
@broker_options
def abort(ingest_id: str, topic: str | None, target: Target) -> None:
    """Abort an open ingest and drop its staged records. Committed records stay."""
    from pybroker.spark import ingest_steps as steps

    with refusals_as_lines():
        cluster = cluster_of(target)
        wanted = None if topic is None else topic_id_of(target, cluster, topic)
        found = [each for each in _find(cluster, ingest_id) if wanted in (None, str(each.topic_id))]
        if not found:
            raise click.ClickException(f"There is no ingest {ingest_id}.")
        if len({str(each.topic_id) for each in found}) > 1:
            raise click.ClickException(f"Several topics have an ingest {ingest_id}; choose one with --topic.")
        for each in found:
            state = steps.abort(cluster, str(each.topic_id), ingest_id, each.batch_id)
            if state is not steps.LoadState.ABSENT:
                raise click.ClickException(
                    f"Cannot abort ingest {ingest_id}: it is {state.name.lower()}, and its records are in the topic."
                )
    if target.json:
        topic_id = str(found[0].topic_id)
        write_json({"topic": found[0].topic_name, "topic_id": topic_id, "ingest_id": ingest_id, "aborted": True})
    else:
        say(f"aborted {ingest_id}")


def topic_id_of(target: Target, cluster: SparkCluster, name: str) -> str:
    """Return the id of a topic. Raises click.ClickException if the topic does not exist."""
    found = cluster.topics_named([name]).get(name)
    if found is None:
        raise click.ClickException(absent_topic(target, name))
    return found.id


def _find(cluster: SparkCluster, ingest_id: str) -> list[Any]:
    from pybroker.spark import ingest_steps as steps

    return steps.listed(cluster, ingest_id=ingest_id)
