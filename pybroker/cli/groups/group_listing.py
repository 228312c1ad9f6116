"""Groups and their positions: `list`, `describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.partitions import offsets
from pybroker.cli.shell_completion import group_names
from pybroker.cli.target import Target
from pybroker.wall_clock import wall_ms

if TYPE_CHECKING:
    from pybroker.client import AdminClient, GroupDescription, TopicPartition

OLDEST_S = 10.0
"""Seconds that the command waits for the oldest unread records."""


@click.command("list")
@broker_options
def list_groups(target: Target) -> None:
    """List groups with protocols and states."""
    run(_list(target))


@click.command()
@named("group", "NAME", "Name of the group.", complete=group_names)
@click.option("--members", is_flag=True, help="Show the members and their partitions.")
@click.option("--time-lag", is_flag=True, help="Also show the age of the oldest unread record.")
@broker_options
def describe(group: str, *, members: bool, time_lag: bool, target: Target) -> None:
    """Show the positions and the lag of the group NAME."""
    run(_members(target, group) if members else _positions(target, group, time_lag))


async def _list(target: Target) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        found = await admin.list_groups()
    rows = [
        {"group": each.group_id, "state": each.state, "protocol": each.type.lower() or None}
        for each in sorted(found, key=lambda each: each.group_id)
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ["group", "protocol", "state"])


async def _positions(target: Target, group: str, time_lag: bool) -> None:
    from pybroker.client import AdminClient, OffsetSpec

    async with AdminClient(target.client_config()) as admin:
        described = (await admin.describe_groups([group]))[group]
        if described.protocol_type == "share":
            if time_lag:
                raise click.UsageError("--time-lag does not work with share groups: their members have no positions.")
            await _share_positions(target, admin, described)
            return
        committed = await admin.list_consumer_group_offsets(group)
        owners = {partition: member.member_id for member in described.members for partition in member.assignment}
        if described.protocol_type == "streams":
            # An input topic may have fewer partitions than its subtopology has tasks.
            owners = {partition: member for partition, member in owners.items() if partition in committed}
        everything = sorted(committed.keys() | owners.keys())
        ends = await offsets(admin, everything, OffsetSpec.latest())
    rows: list[dict[str, object]] = []
    unread: dict[TopicPartition, int] = {}
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
        if at is not None and end is not None and at < end:
            unread[partition] = at
    columns = ["topic", "partition", "offset", "end", "lag", "member"]
    if time_lag:
        written = await _oldest(target, unread)
        now_ms = wall_ms()
        for partition, row in zip(everything, rows, strict=True):
            since = written.get(partition) if partition in unread else now_ms
            row["time_lag_ms"] = None if since is None or row["lag"] is None else max(now_ms - since, 0)
        columns.insert(5, "time_lag_ms")
    if target.json:
        write_json({"group": group, "state": described.state, "positions": rows})
        return
    say(f"Group {group}: {described.state or 'unknown'}, {len(described.members)} member(s)")
    table(rows, columns)


async def _share_positions(target: Target, admin: AdminClient, described: GroupDescription) -> None:
    """Print positions of a share group. Several members may read a partition, and all of them read from its start
    offset."""
    group, found = described.group_id, await admin.list_share_group_offsets(described.group_id)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": found[partition].start_offset,
            "lag": found[partition].lag,
            "members": sum(partition in member.assignment for member in described.members),
        }
        for partition in sorted(found)
    ]
    if target.json:
        write_json({"group": group, "state": described.state, "positions": rows})
        return
    say(f"Share group {group}: {described.state}, {len(described.members)} member(s)")
    table(rows, ["topic", "partition", "offset", "lag", "members"])


async def _oldest(target: Target, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the timestamp of the first record at or after each position; skip partitions that the caller cannot
    read."""
    from pybroker.client import Consumer, TopicPartition

    found: dict[TopicPartition, int] = {}
    async with Consumer({**target.client_config(), "max.partition.fetch.bytes": "1"}) as consumer:
        consumer.assign(positions)
        for partition, offset in positions.items():
            consumer.seek(partition, offset)
        give_up = asyncio.get_running_loop().time() + OLDEST_S
        while len(found) < len(positions) and asyncio.get_running_loop().time() < give_up:
            for record in await consumer.poll(0.2):
                partition = TopicPartition(record.topic, record.partition)
                found.setdefault(partition, record.timestamp)
                consumer.pause(partition)
    return found


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
