"""`pybroker topics delete --dry-run` and `truncate --dry-run`: the data that a deletion or truncation would remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pybroker.cli import time_formats
from pybroker.cli.options import run
from pybroker.cli.output import say, table, write_json
from pybroker.cli.target import Target
from pybroker.cli.topics.deleted_topics import no_topic

if TYPE_CHECKING:
    from pybroker.client import DeletionImpact
    from pybroker.native import Uuid


def show_impact(
    target: Target,
    topic: str | Uuid | None,
    *,
    if_exists: bool = False,
    truncates: bool = False,
    keep_offsets: bool = False,
) -> None:
    """Print the impact of a deletion, or of a truncation if `truncates` is true. Change nothing."""
    found = run(_impact(target, topic or "", if_exists))
    if isinstance(found, str):
        if target.json:
            write_json({"topic": None if topic is None else str(topic), "executed": False})
        else:
            say(found)
    elif target.json:
        write_json(_as_json(found))
    elif truncates:
        _print(found, back="The removed records can be restored under another name for", refused="truncation")
        kept = "stay" if keep_offsets else "restart at 0"
        say(f"The topic keeps its name, settings and ACL entries; it gets a new id, and offsets {kept}.")
    else:
        _print(found, back="The topic can be undeleted for", refused="deletion")
    done = "truncated" if truncates else "deleted"
    say(f"Nothing was changed. Without --dry-run the topic is {done}.", err=True)


async def _impact(target: Target, topic: str | Uuid, if_exists: bool) -> DeletionImpact | str:
    """Return the impact, or a sentence about a topic that does not exist."""
    from pybroker.client import AdminClient, UnknownTopicError, deletion_impact

    async with AdminClient(target.client_config()) as admin:
        try:
            return await deletion_impact(admin, topic)
        except UnknownTopicError:
            absent = await no_topic(admin, topic)
            if not if_exists:
                raise click.ClickException(absent) from None
            return absent


def _as_json(impact: DeletionImpact) -> dict[str, Any]:
    return {
        "topic": impact.topic,
        "topic_id": str(impact.topic_id) if impact.topic_id else None,
        "internal": impact.internal,
        "executed": False,
        "partitions": impact.partitions,
        "rows": impact.records,
        "bytes": impact.bytes,
        "protected": impact.protected,
        "remaining_ms": impact.keeps_ms,
        "groups": None
        if impact.groups is None
        else [
            {"group": each.group, "state": each.state, "positions": each.partitions, "lag": each.lag}
            for each in impact.groups
        ],
        "acls": None
        if impact.acls is None
        else [
            {
                "principal": each.principal,
                "operation": each.operation.name,
                "permission": each.permission_type.name,
                "resource": each.name,
                "pattern": each.pattern_type.name,
            }
            for each in impact.acls
        ],
        "notes": list(impact.unknown),
    }


def _print(impact: DeletionImpact, *, back: str, refused: str) -> None:
    def known(number: int | None) -> str:
        return "an unknown number of" if number is None else f"{number:,}"

    say(
        f"Topic {impact.topic} with id {impact.topic_id}: {impact.partitions:,} partition(s), {known(impact.records)} "
        f"records, {known(impact.bytes)} bytes on all replicas."
    )
    if impact.protected:
        say(f"The topic is protected: the {refused} would fail (delete.protection.enable=true).")
    if impact.keeps_ms is None:
        say("The data cannot be restored afterwards.")
    else:
        say(f"{back} {time_formats.span(impact.keeps_ms)}.")
    if impact.groups is not None:
        rows: list[dict[str, object]] = [
            {"group": each.group, "state": each.state, "positions": each.partitions, "lag": each.lag}
            for each in impact.groups
        ]
        say(f"Groups with positions in the topic: {len(rows)}.")
        if rows:
            table(rows, ["group", "state", "positions", "lag"])
    if impact.acls:
        say(f"Matching ACL entries: {len(impact.acls)}; they stay.")
    for each in impact.unknown:
        say(f"Unknown: {each}")
