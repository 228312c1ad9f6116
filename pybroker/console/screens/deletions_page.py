"""Page of deletions: undelete, watch the progress, purge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from pybroker.client import KafkaError, TopicCollection, Uuid
from pybroker.console.queries.fragments import error_text, fragment
from pybroker.console.queries.topic_rows import parsed_id
from pybroker.console.web.request_context import InputError, PageContext, url_with

SHOWN = 500
FOUND = "found"
"""Deletion state of stray replicas, whose topic id the cluster does not know."""


async def show(context: PageContext) -> Response:
    """Show deletions whose data still exists, newest first; `q`: text in the name, or an id."""
    return await _page(context)


async def _page(context: PageContext, status: int = 200, problem: str | None = None) -> Response:
    query = context.query.text("q")
    topic_id = parsed_id(query)
    found = await fragment(context.admin.describe_deletions())
    rows = [
        each
        for each in sorted(found.value or (), key=lambda each: -each.deleted_ms)
        if (each.topic_id == topic_id if topic_id is not None else query.casefold() in (each.name or "").casefold())
    ]
    return context.render(
        "deletions.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        q=query,
        problem=problem,
        is_found=FOUND,
    )


def _id(context: PageContext) -> Uuid:
    topic_id = parsed_id(context.form.text("topic_id"))
    if topic_id is None:
        raise InputError("The form contains no topic.")
    return topic_id


async def undelete(context: PageContext) -> Response:
    """Undelete a topic, under its own name or another name."""
    topic_id, name = _id(context), context.form.text("name") or None
    try:
        made = (await context.admin.undelete_topics({topic_id: name}))[topic_id]
    except KafkaError as error:
        return await _page(context, 422, error_text(error))
    return context.redirect(url_with(f"/topics/{made.name}"), "undeleted")


async def purge(context: PageContext) -> Response:
    """Remove a deleted topic's data now, on every broker. The person has to type the topic's id first."""
    return await _remove_confirmed(context, context.admin.purge_topics, "purged")


async def discard(context: PageContext) -> Response:
    """Delete the stray replicas of a topic. The person has to type the topic's id first."""
    return await _remove_confirmed(
        context, lambda ids: context.admin.delete_topics(TopicCollection.of_topic_ids(ids)), "discarded"
    )


async def _remove_confirmed(
    context: PageContext, remove: Callable[[list[Uuid]], Awaitable[object]], done: str
) -> Response:
    topic_id = _id(context)
    if context.form.raw("typed") != str(topic_id):
        return await _page(context, 422, "The text differs from the id. Nothing was changed.")
    try:
        await remove([topic_id])
    except KafkaError as error:
        return await _page(context, 422, error_text(error))
    return context.redirect("/deletions", done)
