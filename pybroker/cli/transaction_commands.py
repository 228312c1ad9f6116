"""`pybroker transactions`: lists transactions and ends hanging ones, like Kafka's kafka-transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pybroker.cli.grammar import VerbGroup, named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.partitions import partitions_of
from pybroker.cli.shell_completion import topic_names, transactional_ids
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.client import OpenTransaction


@click.group(cls=VerbGroup)
def transactions() -> None:
    """Inspect and abort transactions."""


@transactions.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state, such as Ongoing or Empty.")
@click.option(
    "--open-for", type=click.IntRange(min=0), metavar="MS", help="Only transactions open for longer than this."
)
@broker_options
def list_transactions(states: tuple[str, ...], open_for: int | None, target: Target) -> None:
    """List transactional ids and their states."""
    run(_list(target, states, open_for))


@transactions.command()
@named("transactional_id", "ID", "Transactional id.", complete=transactional_ids)
@broker_options
def describe(transactional_id: str, target: Target) -> None:
    """Show a transaction and its partitions."""
    run(_describe(target, transactional_id))


@transactions.command("describe-producers")
@named("topic", "TOPIC", "Name of the topic.", complete=topic_names)
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@broker_options
def describe_producers(topic: str, partition: int | None, target: Target) -> None:
    """Show the active producers of TOPIC's partitions."""
    run(_producers(target, topic, partition))


@transactions.command("find-hanging")
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="Only in this topic.")
@click.option(
    "--idle",
    "idle_ms",
    type=click.IntRange(min=0),
    default=900_000,
    show_default=True,
    metavar="MS",
    help="Only partitions without writes for this long; default: transaction.max.timeout.ms of the brokers.",
)
@broker_options
def find_hanging(topic: str | None, idle_ms: int, target: Target) -> None:
    """Find hanging transactions.

    These are open in partitions although no coordinator knows them.
    """
    run(_hanging(target, topic, idle_ms))


@transactions.command()
@named("transactional_id", "ID", "Transactional id.", required=False, complete=transactional_ids)
@click.option(
    "--topic", metavar="NAME", shell_complete=topic_names, help="Topic of a hanging transaction (instead of ID)."
)
@click.option("--partition", type=click.IntRange(min=0), help="Partition of the hanging transaction.")
@click.option("--start-offset", type=click.IntRange(min=0), help="Offset at which it began (see find-hanging).")
@broker_options
def abort(
    transactional_id: str | None,
    *,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    target: Target,
) -> None:
    """Abort a transaction.

    With ID: abort its transaction and fence its producer. With --topic, --partition and --start-offset: abort a hanging
    transaction of the partition.
    """
    if transactional_id is not None and topic is None and partition is None and start_offset is None:
        run(_terminate(target, transactional_id))
    elif transactional_id is None and topic is not None and partition is not None and start_offset is not None:
        run(_abort(target, topic, partition, start_offset))
    else:
        raise click.UsageError("Use either an ID, or --topic, --partition and --start-offset together.")


async def _list(target: Target, states: Sequence[str], open_for_ms: int | None) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        found = await admin.list_transactions(states=states, open_for_ms=open_for_ms)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "broker": each.coordinator,
        }
        for each in sorted(found, key=lambda each: each.transactional_id)
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ["transactional_id", "state", "producer_id", "broker"])


async def _describe(target: Target, transactional_id: str) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
    row = {
        "transactional_id": transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "broker": found.coordinator,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms,
        "partitions": [{"topic": each.topic, "partition": each.partition} for each in sorted(found.partitions)],
    }
    if target.json:
        write_json(row)
        return
    shown = {**row, "partitions": [str(each) for each in sorted(found.partitions)]}
    table([shown], list(shown))


async def _producers(target: Target, topic: str, partition: int | None) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        known = await partitions_of(admin, [topic])
        wanted = [each for each in known if partition in (None, each.partition)]
        if not wanted:
            raise click.ClickException(f"Topic {topic} has {len(known)} partitions, numbered from 0.")
        found = await admin.describe_producers(wanted)
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_ms": producer.last_timestamp_ms,
            "coordinator_epoch": producer.coordinator_epoch,
            "start_offset": producer.transaction_start,
        }
        for where, producers in sorted(found.items())
        for producer in producers
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, [*_WHERE, "last_sequence", "last_ms", "coordinator_epoch", "start_offset"])


_WHERE = ("topic", "partition", "producer_id", "producer_epoch")


async def _hanging(target: Target, topic: str | None, idle_ms: int) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        topics = [topic] if topic is not None else list(await admin.list_topics(list_internal=True))
        found = await admin.find_hanging_transactions(await partitions_of(admin, topics), idle_ms=idle_ms)
    rows = [_row(producer) for producer in sorted(found, key=lambda one: one.partition)]
    if target.json:
        write_json(rows)
    else:
        table(rows, [*_WHERE, "last_ms", "start_offset"])


def _row(one: OpenTransaction) -> dict[str, object]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "producer_id": one.producer.producer_id,
        "producer_epoch": one.producer.producer_epoch,
        "last_ms": one.producer.last_timestamp_ms,
        "start_offset": one.producer.transaction_start,
    }


async def _terminate(target: Target, transactional_id: str) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await admin.terminate_transaction(transactional_id)
    if target.json:
        write_json({"transactional_id": transactional_id, "aborted": True})
    else:
        say(f"Aborted the transaction of {transactional_id} and fenced its producer.")


async def _abort(target: Target, topic: str, partition: int, start_offset: int) -> None:
    from pybroker.client import AdminClient, OpenTransaction, TopicPartition

    where = TopicPartition(topic, partition)
    async with AdminClient(target.client_config()) as admin:
        producers = (await admin.describe_producers([where]))[where]
        begun = [producer for producer in producers if producer.transaction_start == start_offset]
        if not begun:
            raise click.ClickException(f"No open transaction in {where} began at offset {start_offset}.")
        await admin.abort_transaction(OpenTransaction(where, begun[0]))
    if target.json:
        write_json({"topic": topic, "partition": partition, "start_offset": start_offset, "aborted": True})
    else:
        say(f"Aborted the transaction that began at offset {start_offset} in {where}.")
