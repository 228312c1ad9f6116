"""`pybroker groups`: consumer groups, in the manner of kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pybroker.cli.completion import group_names, topic_names
from pybroker.cli.grammar import VerbGroup, named
from pybroker.cli.options import Target, broker_options, run
from pybroker.cli.output import table, write_json

if TYPE_CHECKING:
    from pybroker.client import AdminClient, OffsetSpec, TopicPartition


@click.group(cls=VerbGroup)
def groups() -> None:
    """Consumer groups: who is in them, where they are, and moving their positions."""


@groups.command("list")
@broker_options
def list_groups(target: Target) -> None:
    """List groups and their states."""
    run(_list(target))


@groups.command()
@named("group", "NAME", "The group.", complete=group_names)
@click.option("--members", is_flag=True, help="Its members and what they read.")
@broker_options
def describe(group: str, *, members: bool, target: Target) -> None:
    """Show the positions of the group NAME and how far behind they are."""
    run(_members(target, group) if members else _positions(target, group))


@groups.command()
@named("group", "NAME", "The group.", complete=group_names)
@broker_options
def delete(group: str, target: Target) -> None:
    """Delete the group NAME, which has no members, with its positions."""
    run(_delete(target, group))


@groups.command("reset-offsets")
@named("group", "NAME", "The group.", complete=group_names)
@click.option("--topic", metavar="NAME", shell_complete=topic_names, help="Only this topic.")
@click.option("--to-earliest", is_flag=True, help="To the first record that is there.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option(
    "--to-timestamp", type=int, metavar="MS", help="To the first record of that time (ms since 1970) or later."
)
@click.option("--execute", is_flag=True, help="Do it; else it is only shown.")
@broker_options
def reset_offsets(
    group: str,
    *,
    topic: str | None,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_timestamp: int | None,
    execute: bool,
    target: Target,
) -> None:
    """Move the positions of the group NAME, which has no members."""
    from pybroker.client import OffsetSpec

    places: list[OffsetSpec | int] = [
        *([OffsetSpec.earliest()] if to_earliest else []),
        *([OffsetSpec.latest()] if to_latest else []),
        *([to_offset] if to_offset is not None else []),
        *([OffsetSpec.for_timestamp(to_timestamp)] if to_timestamp is not None else []),
    ]
    if len(places) != 1:
        raise click.UsageError("Say where to: --to-earliest, --to-latest, --to-offset or --to-timestamp.")
    run(_reset(target, group, topic, places[0], execute))


async def _list(target: Target) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        found = await admin.list_groups()
    rows = [
        {"group": each.group_id, "state": each.state, "protocol": each.protocol_type}
        for each in sorted(found, key=lambda each: each.group_id)
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ["group", "state", "protocol"])


async def _positions(target: Target, group: str) -> None:
    from pybroker.client import AdminClient, OffsetSpec

    async with AdminClient(target.client_config()) as admin:
        described = (await admin.describe_groups([group]))[group]
        committed = await admin.list_consumer_group_offsets(group)
        owners = {partition: member.member_id for member in described.members for partition in member.assignment}
        everything = sorted(committed.keys() | owners.keys())
        ends = await _offsets(admin, everything, OffsetSpec.latest())
    rows = []
    for partition in everything:
        at = committed[partition].offset if partition in committed else None
        end = ends.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": at,
                "end": end,
                "lag": None if at is None or end is None else max(end - at, 0),
                "member": owners.get(partition),
            }
        )
    if target.json:
        write_json({"group": group, "state": described.state, "positions": rows})
        return
    click.echo(f"Group {group}: {described.state or 'unknown'}, {len(described.members)} member(s)")
    table(rows, ["topic", "partition", "offset", "end", "lag", "member"])


async def _members(target: Target, group: str) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        described = (await admin.describe_groups([group]))[group]
    rows = [
        {
            "member": each.member_id,
            "instance": each.group_instance_id,
            "client": each.client_id,
            "host": each.host,
            "partitions": [str(partition) for partition in each.assignment],
        }
        for each in described.members
    ]
    if target.json:
        write_json({"group": group, "state": described.state, "members": rows})
    else:
        table(rows, ["member", "instance", "client", "host", "partitions"])


async def _delete(target: Target, group: str) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await admin.delete_groups([group])
    if target.json:
        write_json({"group": group, "deleted": True})
    else:
        click.echo(f"Deleted group {group}.")


async def _reset(target: Target, group: str, topic: str | None, place: OffsetSpec | int, execute: bool) -> None:
    from pybroker.client import AdminClient, TopicPartition

    async with AdminClient(target.client_config()) as admin:
        if topic is None:
            partitions = sorted(await admin.list_consumer_group_offsets(group))
        else:
            described = (await admin.describe_topics([topic])).get(topic)
            assert described is not None, "a failure would have been raised"
            partitions = [TopicPartition(topic, each.partition) for each in described.partitions]
        if not partitions:
            raise click.ClickException(f"Group {group} has no positions; name a --topic.")
        wanted = await _places(admin, partitions, place)
        if execute:
            await admin.alter_consumer_group_offsets(group, wanted)
    rows = [{"topic": each.topic, "partition": each.partition, "offset": offset} for each, offset in wanted.items()]
    if target.json:
        write_json({"group": group, "executed": execute, "positions": rows})
        return
    table(rows, ["topic", "partition", "offset"])
    if not execute:
        click.echo("Nothing was changed: --execute does it.", err=True)


async def _places(
    admin: AdminClient, partitions: Sequence[TopicPartition], place: OffsetSpec | int
) -> dict[TopicPartition, int]:
    """The offset of each partition; a number is kept within what is there, and a time after the last record is its
    end.
    """
    from pybroker.client import OffsetSpec

    ends = await _offsets(admin, partitions, OffsetSpec.latest())
    if isinstance(place, int):
        starts = await _offsets(admin, partitions, OffsetSpec.earliest())
        return {each: min(max(place, starts[each]), ends[each]) for each in partitions}
    found = await _offsets(admin, partitions, place)
    return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}


async def _offsets(
    admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> Mapping[TopicPartition, int]:
    if not partitions:
        return {}
    return {each: row.offset for each, row in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items()}
