"""`pybroker topics history`: the incarnations of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pybroker.cli import time_formats
from pybroker.cli.grammar import named
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import table, write_json
from pybroker.cli.shell_completion import topic_names
from pybroker.cli.target import Target
from pybroker.cli.topics.topic_arguments import name_or_id, parsed_id, topic_id_option

if TYPE_CHECKING:
    from pybroker.client import AdminClient, TopicIncarnation
    from pybroker.native import Uuid


@click.command()
@named("topic", "NAME|ID", "Name or id of the topic.", required=False, complete=topic_names)
@topic_id_option
@broker_options
def history(topic: str | None, topic_id: str | None, target: Target) -> None:
    """Show the history of a topic.

    Shows who created, deleted, undeleted and purged it, and when; newest first.

    By name: all incarnations that have or had the name, with their events under later names too. --json lists the
    incarnations with their log end offsets.
    """
    if (topic is None) == (topic_id is None):
        raise click.UsageError("Use exactly one: pybroker topics history NAME|ID (or --topic NAME, or --topic-id ID).")
    which = topic if topic_id is None else str(parsed_id(topic_id))
    found = run(_asked(target, which or ""))
    if target.json:
        write_json([_incarnation(incarnation) for incarnation in found])
        return
    from pybroker.client.topic_events import topic_events

    rows = [
        {
            "when": time_formats.text(event.at_ms),
            "event": event.what,
            "topic": event.name,
            "topic_id": str(event.topic_id),
            "by": event.by,
            "details": event.details,
        }
        for event in topic_events(found)
    ]
    table(rows, ("when", "event", "topic", "topic_id", "by", "details"))


async def _asked(target: Target, which: str) -> tuple[TopicIncarnation, ...]:
    from pybroker.client import AdminClient, KafkaError

    name, topic_id = name_or_id(which)
    async with AdminClient(target.client_config()) as admin:
        if name is not None:
            return await incarnations(admin, name)
        try:
            return await incarnations(admin, topic_id)
        except KafkaError:
            try:
                # A name may look like an id.
                return await incarnations(admin, which)
            except KafkaError:
                pass
            raise


async def incarnations(admin: AdminClient, which: str | Uuid) -> tuple[TopicIncarnation, ...]:
    """Return the incarnations of a name or id, the latest first. Raises KafkaError if none is known."""
    from pybroker.client import TopicCollection

    wanted: TopicCollection
    if isinstance(which, str):
        wanted = TopicCollection.of_topic_names([which])
    else:
        wanted = TopicCollection.of_topic_ids([which])
    found: tuple[TopicIncarnation, ...] = (await admin.describe_topic_history(wanted))[which]
    return found


def _incarnation(one: TopicIncarnation) -> dict[str, Any]:
    return {
        "topic": one.name,
        "topic_id": str(one.topic_id),
        "state": one.state,
        "created_ms": one.created_ms,
        "created_by": one.created_by,
        "created_how": one.created_how,
        "deleted_ms": one.deleted_ms,
        "deleted_by": one.deleted_by,
        "deleted_how": one.deleted_how,
        "successor_id": None if one.successor_id is None else str(one.successor_id),
        "events": [
            {"what": event.what, "at_ms": event.at_ms, "by": event.by, "topic": event.name} for event in one.events
        ],
        "partitions": [
            {
                "partition": part.partition,
                "log_start_offset": part.log_start_offset,
                "log_end_offset": part.log_end_offset,
            }
            for part in one.partitions
        ],
    }
