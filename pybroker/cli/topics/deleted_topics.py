"""Messages of `pybroker topics` about deleted topics, and their lookup by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli import time_formats
from pybroker.cli.options import run
from pybroker.cli.topics.topic_arguments import name_or_id

if TYPE_CHECKING:
    from pybroker.cli.target import Target
    from pybroker.client import AdminClient, TopicDeletion
    from pybroker.native import Uuid

REMOVED, FOUND = "removed", "found"


async def deletions_of(admin: AdminClient, which: str | Uuid) -> list[TopicDeletion]:
    """Return all deletions of a name, or the deletion of an id; the latest first. Empty if the cluster remembers no
    deletion, or if the user may not see them."""
    from pybroker.client import KafkaError, TopicCollection

    wanted = (
        TopicCollection.of_topic_names([which]) if isinstance(which, str) else TopicCollection.of_topic_ids([which])
    )
    try:
        return sorted(await admin.describe_deletions(wanted), key=lambda each: -each.deleted_ms)
    except KafkaError:
        # Apache Kafka, and pybroker versions without topic ids, do not know this request.
        return []


async def one_deleted(admin: AdminClient, text: str, *, purge: bool = False) -> TopicDeletion:
    """Return the deleted topic with this id or former name. It must be possible to undelete it; if `purge` is true, the
    topic must still have data. Raises click.ClickException if no such topic or several such topics exist.
    """
    name, topic_id = name_or_id(text)
    by_id = [] if name is not None else await deletions_of(admin, topic_id)
    if by_id:
        return by_id[0]
    if name is None:
        # A name may look like an id.
        name = text
    known = await deletions_of(admin, name)
    found = [each for each in known if (each.state not in (REMOVED, FOUND) if purge else each.undeletable)]
    if len(found) == 1:
        return found[0]
    if found:
        rows = "\n".join(f"  {each.topic_id}  {describe_end(each)}" for each in found)
        raise click.ClickException(
            f"{len(found)} deleted topics had the name {text}; use the id of one of them:\n{rows}"
        )
    if known:
        raise click.ClickException(
            f"No deleted topic {text} can be restored; the last one was {describe_end(known[0])}."
        )
    raise click.ClickException(f"There is no deleted topic {text}.")


def describe_end(deletion: TopicDeletion) -> str:
    """Return a sentence that says when and by whom the topic was deleted, and until when it can be undeleted."""
    if deletion.state == FOUND:
        return f"found by a broker at {time_formats.text(deletion.deleted_ms)}"
    text = f"deleted at {time_formats.text(deletion.deleted_ms)} by {deletion.deleted_by or 'an unknown principal'}"
    if deletion.undeletable and deletion.remove_after_ms is not None:
        return f"{text}, can be undeleted until {time_formats.text(deletion.remove_after_ms)}"
    return text if deletion.undeletable else f"{text}, cannot be undeleted"


def undelete_hint(deletion: TopicDeletion) -> str:
    """Return a sentence with the command that undeletes the topic; "" if the topic cannot be undeleted."""
    if not deletion.undeletable:
        return ""
    until = "" if deletion.remove_after_ms is None else f"Until {time_formats.text(deletion.remove_after_ms)} "
    return f"{until}`pybroker topics undelete {deletion.topic_id}` brings it back."


async def no_topic(admin: AdminClient, which: str | Uuid) -> str:
    """Return a sentence about a topic that does not exist: its deletion, and how to undelete it."""
    shown = f"topic {which}" if isinstance(which, str) else f"topic with id {which}"
    known = await deletions_of(admin, which)
    if not known:
        return f"There is no {shown}."
    back = undelete_hint(known[0])
    return f"There is no {shown}: it was {describe_end(known[0])}.{' ' if back else ''}{back}"


def absent_topic(target: Target, name: str) -> str:
    """Return the sentence of `no_topic`, for commands without an admin client."""
    from pybroker.client import AdminClient

    async def ask() -> str:
        async with AdminClient(target.client_config()) as admin:
            return await no_topic(admin, name)

    return run(ask())
