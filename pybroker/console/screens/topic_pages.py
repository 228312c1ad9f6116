"""Pages of one topic: partitions, settings, groups, history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.responses import Response

from pybroker.client import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    TopicCollection,
    TopicDescription,
    TopicIncarnation,
)
from pybroker.client.topic_events import topic_events
from pybroker.console.queries.fragments import PART_S, Fragment, fragment
from pybroker.console.queries.group_lag import groups_of
from pybroker.console.queries.partition_logs import both_ends, replicas_on_disk, with_leader
from pybroker.console.queries.topic_rows import descriptions, partition_rows
from pybroker.console.web.request_context import NotFoundError, PageContext

PARTITIONS_SHOWN = 200
"""Number of partitions on one page."""


async def described(context: PageContext) -> TopicDescription:
    """Return the topic in the URL. Raises NotFoundError."""
    name = context.path("name")
    found = (await descriptions(context.admin, [name])).get(name)
    if found is None:
        raise NotFoundError(
            f"There is no topic {name[:255]}, or you have no permission to see it. If it was deleted, look under "
            "“Deletions”."
        )
    return found


async def show(context: PageContext) -> Response:
    """Show the partitions."""
    topic = await described(context)
    partitions = with_leader([topic])
    ends, disks = await asyncio.gather(
        fragment(both_ends(context.admin, partitions), PART_S),
        fragment(replicas_on_disk(context.admin, partitions), PART_S),
    )
    begin = context.query.number("from", 0, most=1_000_000) or 0
    rows = partition_rows(topic, ends.value or {}, disks.value or {})
    return context.render(
        "topic.html",
        tab="partitions",
        topic=topic,
        rows=rows[begin : begin + PARTITIONS_SHOWN],
        begin=begin,
        shown=PARTITIONS_SHOWN,
        records=_sum(row.records for row in rows),
        bytes=_sum(row.size for row in rows),
        notes=[each.problem for each in (ends, disks) if each.problem],
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum. If a value is unknown, return None, because a partial sum would look like the total."""
    found = list(values)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


async def settings(context: PageContext) -> Response:
    """Show all settings with their sources, and a form for each."""
    topic = await described(context)
    return await settings_page(context, topic)


async def settings_page(
    context: PageContext, topic: TopicDescription, status: int = 200, problem: str | None = None
) -> Response:
    """Return the page. `problem`: the error of a failed change, which the page shows."""
    resource = ConfigResource.topic(topic.name)
    found: Fragment[dict[ConfigResource, dict[str, ConfigEntry]]] = await fragment(
        context.admin.describe_configs([resource]).all()
    )
    entries = sorted((found.value or {}).get(resource, {}).values(), key=lambda each: each.name)
    return context.render(
        "topic_settings.html",
        status,
        tab="settings",
        topic=topic,
        entries=entries,
        failure=found.problem,
        sources=SOURCES,
        own=ConfigSource.TOPIC_CONFIG,
        edit=context.query.text("edit"),
        problem=problem,
    )


SOURCES = {
    ConfigSource.UNKNOWN: "unknown",
    ConfigSource.TOPIC_CONFIG: "this topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker, dynamic",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, dynamic",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's settings file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "logger",
    ConfigSource.CLIENT_METRICS_CONFIG: "subscription",
    ConfigSource.GROUP_CONFIG: "this group",
}


async def groups(context: PageContext) -> Response:
    """Show groups with offsets in the topic."""
    topic = await described(context)
    found = await fragment(groups_of(context.admin, with_leader([topic])))
    return context.render("topic_groups.html", tab="groups", topic=topic, groups=found)


async def history(context: PageContext) -> Response:
    """Show all incarnations of the name, whether or not the topic exists."""
    name = context.path("name")
    topic = (await descriptions(context.admin, [name])).get(name)
    found = await fragment(_history(context, name))
    if topic is None and not found.value:
        raise NotFoundError(f"There is no topic {name[:255]} and no history of one.")
    return context.render(
        "history.html",
        tab="history",
        topic=topic,
        name=name,
        topic_id=None,
        history=found,
        events=topic_events(found.value or ()),
    )


async def _history(context: PageContext, name: str) -> tuple[TopicIncarnation, ...]:
    return (await context.admin.describe_topic_history(TopicCollection.of_topic_names([name])))[name]
