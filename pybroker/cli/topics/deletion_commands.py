"""`pybroker topics deletions`: deleted topics with data on disks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli import time_formats
from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import FOUND, REMOVED
from pybroker.cli.topics.topic_arguments import name_or_id, parsed_id

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicDeletion

POLL_S = 0.2
"""Interval of the requests for the state of a deletion."""


@click.command()
@named("topic", "NAME|ID", "Show only this topic.", required=False)
@click.option("--details", is_flag=True, help="Show a line for each partition on each broker.")
@click.option("--wait", "waited_for", metavar="ID|NAME", help="Wait until the data of this topic is removed.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Limit of --wait; default: no limit.")
@click.option(
    "--discard", metavar="ID", help='Delete the data of a topic that the cluster does not know (state "found").'
)
@click.option("--shorten", metavar="SPAN", help="Let pending deletions end this long (90s, 15m, 2h) after they began.")
@broker_options
def deletions(
    topic: str | None,
    *,
    details: bool,
    waited_for: str | None,
    timeout: float | None,
    discard: str | None,
    shorten: str | None,
    target: Target,
) -> None:
    """Show deleted topics that still have data.

    Shows state, bytes on all brokers, and remaining time.

    delete.topic.delay.ms applies to later deletions. --shorten applies a shorter delay to pending deletions: to those
    of all topics that you may delete, or of NAME|ID. `pybroker topics purge` removes one topic's data now.

    State "found" means that brokers set data aside because the cluster does not know its topic. The data stays until
    `pybroker topics undelete` restores it or --discard deletes it after the usual delay.
    """
    if timeout is not None and waited_for is None:
        raise click.UsageError("--timeout requires --wait.")
    if waited_for is not None and topic is not None:
        raise click.UsageError("--wait selects the topic; remove the argument NAME|ID.")
    delay_ms = None if shorten is None else time_formats.parsed_span(shorten)
    if shorten is not None and not delay_ms:
        raise click.UsageError(f"--shorten {shorten}: expected a duration above 0, such as 90s, 15m, 2h or 7d.")
    found = run(_work(target, topic, waited_for, timeout, discard=discard, delay_ms=delay_ms))
    if target.json:
        write_json([_as_json(deletion) for deletion in found])
    elif details:
        columns = ("topic", "topic_id", "how", "partition", "broker", "state", "bytes", "removed_in", "log_dir")
        table([row for deletion in found for row in _replica_rows(deletion)], columns)
    else:
        columns = ("topic", "topic_id", "how", "deleted", "by", "state", "brokers", "bytes", "removed_in")
        table([_row(deletion) for deletion in found], columns)


async def _work(
    target: Target,
    topic: str | None,
    waited_for: str | None,
    timeout_s: float | None,
    *,
    discard: str | None,
    delay_ms: int | None,
) -> list[TopicDeletion]:
    from pybroker.client import AdminClient

    async with AdminClient(target.client_config()) as admin:
        if discard is not None:
            await _discard(admin, discard)
        if delay_ms is not None:
            await _shorten(admin, await _shown(admin, topic), delay_ms)
        if waited_for is not None:
            return await _gone(admin, waited_for, timeout_s)
        return await _shown(admin, topic)


async def _shown(admin: AdminClient, which: str | None) -> list[TopicDeletion]:
    """Return the deletions of one topic. Without a topic, return all deletions whose data is still on a disk."""
    from pybroker.client import TopicCollection

    if which is None:
        return await admin.describe_deletions()
    name, topic_id = name_or_id(which)
    if name is None:
        found = await admin.describe_deletions(TopicCollection.of_topic_ids([topic_id]))
        if found:
            return found
    # A name may look like an id.
    return await admin.describe_deletions(TopicCollection.of_topic_names([which]))


async def _discard(admin: AdminClient, text: str) -> None:
    from pybroker.client import TopicCollection

    topic_id = parsed_id(text)
    if not any(
        deletion.topic_id == topic_id and deletion.state == FOUND for deletion in await admin.describe_deletions()
    ):
        raise click.ClickException(f"No broker has data of an unknown topic with id {topic_id}.")
    await admin.delete_topics(TopicCollection.of_topic_ids([topic_id]))


async def _shorten(admin: AdminClient, found: Iterable[TopicDeletion], delay_ms: int) -> None:
    from pybroker.client import ErrorCode, KafkaError

    under_way = [deletion.topic_id for deletion in found if deletion.undeletable and deletion.state != FOUND]
    result = admin.purge_topics(under_way, delay_s=delay_ms / 1000).values() if under_way else {}
    refused = 0
    for topic_id in under_way:
        try:
            await result[topic_id]
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            refused += 1
    shortened = len(under_way) - refused
    say(f"{shortened} deletions end {time_formats.span(delay_ms)} after they began, or earlier.", err=True)
    if refused:
        say(f"{refused} deletions are unchanged: you may not delete these topics.", err=True)


async def _gone(admin: AdminClient, waited_for: str, timeout_s: float | None) -> list[TopicDeletion]:
    give_up = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        found = await _shown(admin, waited_for)
        if not found:
            raise click.ClickException(f"There is no deleted topic '{waited_for}'.")
        if all(deletion.state == REMOVED for deletion in found):
            return found
        if give_up is not None and time.monotonic() >= give_up:
            raise click.ClickException(f"Brokers still have data of '{waited_for}' after {timeout_s:g} s.")
        await asyncio.sleep(POLL_S)


def _row(one: TopicDeletion) -> dict[str, object]:
    return {
        "topic": one.name,
        "topic_id": str(one.topic_id),
        "how": one.how,
        "deleted": time_formats.text(one.deleted_ms),
        "by": one.deleted_by,
        "state": one.state,
        "brokers": _on_brokers(one),
        "bytes": one.size_bytes,
        "removed_in": "" if one.remaining_ms is None else time_formats.span(one.remaining_ms),
    }


def _on_brokers(one: TopicDeletion) -> str:
    """Return the states by broker if they differ: `1,3: staged, 2: deleting`."""
    states: dict[str, set[int]] = {}
    for broker in {replica.broker_id for replica in one.replicas}:
        those = {replica.state for replica in one.replicas if replica.broker_id == broker}
        states.setdefault("+".join(sorted(those)), set()).add(broker)
    listed = {state: ",".join(map(str, sorted(brokers))) for state, brokers in states.items()}
    if len(listed) == 1:
        return next(iter(listed.values()))
    return ", ".join(f"{brokers}: {state}" for state, brokers in sorted(listed.items(), key=lambda each: each[1]))


def _replica_rows(one: TopicDeletion) -> list[dict[str, object]]:
    return [
        {
            "topic": one.name,
            "topic_id": str(one.topic_id),
            "how": one.how,
            "partition": part.partition,
            "broker": part.broker_id,
            "state": part.state,
            "bytes": part.size_bytes,
            "removed_in": "" if part.remaining_ms is None else time_formats.span(part.remaining_ms),
            "log_dir": part.log_dir,
        }
        for part in one.replicas
    ]


def _as_json(one: TopicDeletion) -> dict[str, Any]:
    return {
        "topic": one.name,
        "topic_id": str(one.topic_id),
        "state": one.state,
        "how": one.how,
        "deleted_ms": one.deleted_ms,
        "deleted_by": one.deleted_by,
        "undeletable": one.undeletable,
        "remove_after_ms": one.remove_after_ms,
        "remaining_ms": one.remaining_ms,
        "bytes": one.size_bytes,
        "partitions": [
            {
                "partition": part.partition,
                "broker": part.broker_id,
                "state": part.state,
                "log_dir": part.log_dir,
                "bytes": part.size_bytes,
                "remaining_ms": part.remaining_ms,
            }
            for part in one.replicas
        ],
    }
