"""Commands that change a group: `delete`, `delete-offsets`, `reset-offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pybroker.cli.grammar import named
from pybroker.cli.groups.reset_targets import ResetTarget, csv_line, read_plan, reset_target_options
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.partitions import offsets, partitions_of
from pybroker.cli.shell_completion import group_names, topic_names
from pybroker.cli.target import Target

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicPartition


@click.command()
@named("group", "NAME", "Name of the group.", complete=group_names)
@broker_options
def delete(group: str, target: Target) -> None:
    """Delete the group NAME and its positions. The group must have no members."""
    run(_delete(target, group))


@click.command("delete-offsets")
@named("group", "NAME", "Name of the group.", complete=group_names)
@click.option(
    "--topic", "topics", metavar="NAME[:N,…]", multiple=True, required=True, shell_complete=topic_names,
    help="Topic, or NAME:0,1 for some of its partitions; repeatable.",
)  # fmt: skip
@broker_options
def delete_offsets(group: str, *, topics: tuple[str, ...], target: Target) -> None:
    """Delete positions of the group NAME. Its members must not read the topic."""
    run(_delete_offsets(target, group, topics))


@click.command("reset-offsets")
@named("group", "NAME", "Name of the group.", complete=group_names)
@click.option(
    "--topic", "topics", metavar="NAME[:N,…]", multiple=True, shell_complete=topic_names,
    help="Only this topic, or NAME:0,1 for some of its partitions; repeatable.",
)  # fmt: skip
@click.option(
    "--all-topics", is_flag=True, help="All topics for which the group has positions (the default without --topic)."
)
@reset_target_options
@click.option(
    "--dry-run", is_flag=True, help="Show the new positions without changing them (the default without --execute)."
)
@click.option("--execute", is_flag=True, help="Change the positions.")
@click.option("--export", is_flag=True, help="Print CSV lines for --from-file instead of a table.")
@broker_options
def reset_offsets(
    group: str,
    *,
    topics: tuple[str, ...],
    all_topics: bool,
    reset_target: ResetTarget | Path,
    dry_run: bool,
    execute: bool,
    export: bool,
    target: Target,
) -> None:
    """Reset the positions of the group NAME. The group must have no members."""
    if all_topics and topics:
        raise click.UsageError("Use either --topic or --all-topics, not both.")
    if dry_run and execute:
        raise click.UsageError("Use either --dry-run or --execute, not both.")
    if export and target.json:
        raise click.UsageError("Use either --export or --json, not both.")
    run(_reset(target, group, topics, reset_target, "execute" if execute else "export" if export else "show"))


async def _delete(target: Target, group: str) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        await admin.delete_groups([group])
    if target.json:
        write_json({"group": group, "deleted": True})
    else:
        say(f"Deleted group {group}.")


async def _delete_offsets(target: Target, group: str, topics: Iterable[str]) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        is_share, _, committed = await _committed(admin, group)
        wanted = [each for each in await _named(admin, topics) if each in committed]
        if not wanted:
            raise click.ClickException(f"Group {group} has no positions for the given topics.")
        if is_share:
            if part := next((text for text in topics if ":" in text), None):
                raise click.ClickException(f"--topic {part}: a share group can only delete positions of whole topics.")
            await admin.delete_share_group_offsets(group, dict.fromkeys(each.topic for each in wanted))
        else:
            await admin.delete_consumer_group_offsets(group, wanted)
    rows = [{"topic": each.topic, "partition": each.partition} for each in wanted]
    if target.json:
        write_json({"group": group, "deleted": True, "positions": rows})
    else:
        for each in wanted:
            say(f"Deleted the position of {each}.")


async def _reset(target: Target, group: str, topics: Iterable[str], reset_target: ResetTarget | Path, how: str) -> None:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        is_share, members, committed = await _committed(admin, group)
        if how == "execute" and members:
            raise click.ClickException(
                f"Group {group} has {members} member(s). Stop them, then repeat the command; nothing was changed."
            )
        if isinstance(reset_target, Path):
            plan = read_plan(reset_target)
            chosen = sorted(plan)
            wanted = await _within(admin, plan)
        else:
            chosen = await _named(admin, topics) or sorted(committed)
            if not chosen:
                raise click.ClickException(f"Group {group} has no positions; use --topic to choose topics.")
            wanted = await _reached(admin, chosen, reset_target, committed)
        if how == "execute":
            if is_share:
                await admin.alter_share_group_offsets(group, wanted)
            else:
                await admin.alter_consumer_group_offsets(group, wanted)
    rows = [
        {"topic": each.topic, "partition": each.partition, "before": committed.get(each), "offset": wanted[each]}
        for each in chosen
    ]
    if how == "export":
        for each in chosen:
            say(csv_line(each, wanted[each]))
    elif target.json:
        write_json({"group": group, "executed": how == "execute", "positions": rows})
    else:
        table(rows, ["topic", "partition", "before", "offset"])
    if how != "execute":
        say(f"Nothing was changed. Use --execute to apply this{_after_members(members)}.", err=True)


def _after_members(members: int) -> str:
    if not members:
        return ""
    what = "its member has" if members == 1 else f"all {members} members have"
    return f", after {what} left the group"


async def _committed(admin: AdminClient, group: str) -> tuple[bool, int, dict[TopicPartition, int]]:
    """Return whether the group is a share group, its number of members, and its positions. A group that does not exist
    yet has none."""
    from pybroker.client import ErrorCode, KafkaError

    try:
        described = (await admin.describe_groups([group]))[group]
        is_share, members = described.protocol_type == "share", len(described.members)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        is_share, members = False, 0
    if is_share:
        starts = await admin.list_share_group_offsets(group)
        return True, members, {each: at.start_offset for each, at in starts.items()}
    return False, members, {each: at.offset for each, at in (await admin.list_consumer_group_offsets(group)).items()}


async def _named(admin: AdminClient, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of `NAME` or `NAME:0,1`, in order. Raises click.ClickException if a topic is missing."""
    from pybroker.client import TopicPartition

    found: set[TopicPartition] = set()
    for text in topics:
        name, _, listed = text.partition(":")
        there = [each.partition for each in await partitions_of(admin, [name])]
        if listed and not all(part.isdecimal() and int(part) in there for part in listed.split(",")):
            raise click.ClickException(f"--topic {text}: topic {name} has {len(there)} partitions, numbered from 0.")
        chosen = [int(part) for part in listed.split(",")] if listed else there
        found |= {TopicPartition(name, index) for index in chosen}
    return sorted(found)


async def _reached(
    admin: AdminClient,
    partitions: list[TopicPartition],
    reset_target: ResetTarget,
    committed: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the target offset of each partition. If the target is a time after the last record, the offset is the log
    end.
    """
    from pybroker.client import OffsetSpec

    if reset_target.kind in ("current", "shift"):
        if missing := [each for each in partitions if each not in committed]:
            raise click.ClickException(
                f"The group has no position for {missing[0]}; --to-current and --shift-by need one."
            )
        return await _within(admin, {each: committed[each] + reset_target.number for each in partitions})
    if reset_target.kind == "offset":
        return await _within(admin, dict.fromkeys(partitions, reset_target.number))
    if reset_target.kind == "time":
        found = await offsets(admin, partitions, OffsetSpec.for_timestamp(reset_target.number))
        ends = await offsets(admin, partitions, OffsetSpec.latest())
        return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}
    spec = OffsetSpec.earliest() if reset_target.kind == "earliest" else OffsetSpec.latest()
    return await offsets(admin, partitions, spec)


async def _within(admin: AdminClient, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Limit offsets to the existing log."""
    from pybroker.client import OffsetSpec

    partitions = sorted(wanted)
    starts = await offsets(admin, partitions, OffsetSpec.earliest())
    ends = await offsets(admin, partitions, OffsetSpec.latest())
    return {each: min(max(wanted[each], starts[each]), ends[each]) for each in partitions}
