"""`pybroker topics undelete | purge | truncate`: restores, finally removes, or empties topics."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, write_json
from pybroker.cli.shell_completion import deleted_ids, topic_names
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import REMOVED, deletions_of, describe_end, no_topic, one_deleted
from pybroker.cli.topics.history_command import incarnations

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicDeletion
    from pybroker.native import Uuid

TIMEOUT_S = 60.0
"""Timeout in seconds of the broker's requests. An undelete is fast: it moves directories and copies nothing."""
PURGE_WAIT_S = 10.0
"""Seconds in which running brokers remove files, unless there are very many."""
POLL_S = 0.1


@click.command()
@named("topic_id", "NAME|ID", "Former name or id of the topic.", complete=deleted_ids)
@click.option("--as", "new_name", metavar="NAME", help="New name of the topic; default: its former name.")
@broker_options
def undelete(topic_id: str, new_name: str | None, target: Target) -> None:
    """Undelete a topic.

    Works while its data still exists. Restores records, settings and offsets of groups.

    Use the name if only one deleted topic of that name can be undeleted; otherwise use the id from `pybroker topics
    deletions`.
    """

    async def work() -> Any:
        from pybroker.client import AdminClient

        async with AdminClient(target.client_config()) as admin:
            which = _id_or_none(topic_id)
            if which is None or (not await deletions_of(admin, which) and await deletions_of(admin, topic_id)):
                which = (await one_deleted(admin, topic_id)).topic_id
            # Send the id without a check. If the topic cannot be undeleted, the broker returns the reason.
            return (await admin.undelete_topics({which: new_name}, timeout_s=TIMEOUT_S))[which]

    made = run(work())
    if target.json:
        write_json({"topic": made.name, "topic_id": str(made.topic_id)})
    else:
        say(f"Undeleted topic {made.name} with id {made.topic_id}.")


def _id_or_none(text: str) -> Uuid | None:
    from pybroker.native import Uuid

    try:
        return Uuid.parse(text)
    except ValueError:
        return None


@click.command()
@named("topic_id", "NAME|ID", "Former name or id of the topic.", complete=deleted_ids)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@broker_options
def purge(topic_id: str, yes: bool, target: Target) -> None:
    """Remove the data of a deleted topic now.

    The removal is permanent and does not wait for delete.topic.delay.ms.

    Brokers that are down remove their data when they start again.
    """

    async def work() -> tuple[TopicDeletion, TopicDeletion]:
        from pybroker.client import AdminClient

        async with AdminClient(target.client_config()) as admin:
            found = await one_deleted(admin, topic_id, purge=True)
            if not yes:
                confirm_purge(found)
            return found, await purged(admin, found)

    before, after = run(work())
    if target.json:
        write_json(receipt(before, after))
    else:
        say(receipt_sentence(before, after))


def confirm_purge(found: TopicDeletion) -> None:
    """Ask for confirmation on the terminal. Raises click.Abort."""
    size = "an unknown number of" if found.size_bytes is None else f"{found.size_bytes:,}"
    text = f"Topic {found.name} with id {found.topic_id}, {describe_end(found)}, {size} bytes"
    click.confirm(f"{text}: remove its data permanently?", abort=True, err=True)


async def purged(admin: AdminClient, found: TopicDeletion) -> TopicDeletion:
    """Purge a deleted topic. Wait some seconds for all running brokers to remove its data, and return the data that
    remains."""
    await admin.purge_topics([found.topic_id], timeout_s=TIMEOUT_S)
    give_up = time.monotonic() + PURGE_WAIT_S
    running = {node.id for node in (await admin.describe_cluster()).nodes}
    while True:
        left = next(iter(await deletions_of(admin, found.topic_id)), None)
        if left is None:
            # Every broker has removed the data. The topic's history is gone too, because the name has more than
            # topic.history.max.incarnations deleted topics.
            return dataclasses.replace(found, state=REMOVED, replicas=())
        if not running & _holders(left) or time.monotonic() >= give_up:
            return left
        await asyncio.sleep(POLL_S)


def _holders(deletion: TopicDeletion) -> set[int]:
    return {replica.broker_id for replica in deletion.replicas if replica.state != REMOVED}


def receipt(before: TopicDeletion, after: TopicDeletion) -> dict[str, Any]:
    """Return the amount of removed data, and the brokers that still have data of the topic."""
    return {
        "topic": before.name,
        "topic_id": str(before.topic_id),
        "purged": True,
        "state": after.state,
        "bytes": before.size_bytes,
        "missing": sorted(_holders(after)),
    }


def receipt_sentence(before: TopicDeletion, after: TopicDeletion) -> str:
    """Return the receipt as a sentence for people."""
    size = "" if before.size_bytes is None else f", {before.size_bytes:,} bytes"
    sentence = f"Purged topic {before.name} with id {before.topic_id}{size}"
    missing = sorted(_holders(after))
    if not missing:
        return f"{sentence}: no broker has data of it."
    brokers = f"broker {missing[0]}" if len(missing) == 1 else f"brokers {', '.join(map(str, missing))}"
    return (
        f"{sentence}. Data remains on {brokers}; it is removed as soon as possible (`pybroker topics deletions "
        f"{before.topic_id}`)."
    )


async def _living(admin: AdminClient, topic: str) -> Uuid:
    """Return the id of the topic with a name, from the controller. Raises UnknownTopicError."""
    from pybroker.client import ErrorCode, UnknownTopicError

    for incarnation in await incarnations(admin, topic):
        if incarnation.state == "live" and incarnation.name == topic:
            return incarnation.topic_id
    raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{topic}'.")


@click.command()
@named("topic", "NAME", "Name of the topic.", complete=topic_names)
@click.option(
    "--keep-offsets", is_flag=True, help="Let new records continue at the old log end; groups keep their offsets."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed: records, bytes, groups.")
@broker_options
def truncate(topic: str, keep_offsets: bool, dry_run: bool, target: Target) -> None:
    """Remove all records of a topic.

    The topic gets a new id and empty logs, and keeps its name and settings.

    The old records are kept like those of a deleted topic, and can be restored under another name.
    """
    if dry_run:
        from pybroker.cli.topics.impact_report import show_impact

        show_impact(target, topic, truncates=True, keep_offsets=keep_offsets)
        return

    async def work() -> tuple[Any, TopicDeletion | None]:
        from pybroker.client import AdminClient, TopicCollection, UnknownTopicError

        async with AdminClient(target.client_config()) as admin:
            try:
                # Truncate by id. If the client sends the request twice, the second request then has no effect.
                old = await _living(admin, topic)
                which = TopicCollection.of_topic_ids([old])
                made = (await admin.truncate_topics(which, keep_offsets=keep_offsets, timeout_s=TIMEOUT_S))[old]
            except UnknownTopicError:
                raise click.ClickException(await no_topic(admin, topic)) from None
            return made, next(iter(await deletions_of(admin, made.old_topic_id)), None)

    made, waiting = run(work())
    if target.json:
        until = None if waiting is None else waiting.remove_after_ms
        new, old = str(made.topic_id), str(made.old_topic_id)
        write_json({"topic": made.name, "topic_id": new, "old_topic_id": old, "remove_after_ms": until})
        return
    say(f"Truncated topic {made.name}: new id {made.topic_id}, old id {made.old_topic_id}.")
    if waiting is not None and waiting.undeletable:
        back = f"`pybroker topics undelete {made.old_topic_id} --as NAME`"
        say(f"{back} restores the records ({describe_end(waiting)}).")
