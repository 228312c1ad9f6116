"""Page of deletions: undelete, watch the progress, purge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from pybroker.client import KafkaError, TopicCollection, Uuid
from pybroker.console.queries.fragments import in_words, part
from pybroker.console.queries.topic_rows import parsed_id
from pybroker.console.web.request_context import InputError, Visit, at

SHOWN = 500
FOUND = "found"
"""State of stray replicas: the cluster does not know the topic id."""


async def show(visit: Visit) -> Response:
    """Show deletions whose data still exists, newest first; `q`: text in the name, or an id."""
    return await _page(visit)


async def _page(visit: Visit, status: int = 200, problem: str | None = None) -> Response:
    query = visit.query.text("q")
    topic_id = parsed_id(query)
    found = await part(visit.admin.describe_deletions())
    rows = [
        each
        for each in sorted(found.value or (), key=lambda each: -each.deleted_ms)
        if (each.topic_id == topic_id if topic_id is not None else query.casefold() in (each.name or "").casefold())
    ]
    return visit.render(
        "deletions.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        q=query,
        problem=problem,
        is_found=FOUND,
    )


def _id(visit: Visit) -> Uuid:
    topic_id = parsed_id(visit.form.text("topic_id"))
    if topic_id is None:
        raise InputError("The form contains no topic.")
    return topic_id


async def undelete(visit: Visit) -> Response:
    """Undelete a topic under its name or another one."""
    topic_id, name = _id(visit), visit.form.text("name") or None
    try:
        made = (await visit.admin.undelete_topics({topic_id: name}))[topic_id]
    except KafkaError as error:
        return await _page(visit, 422, in_words(error))
    return visit.redirect(at(f"/topics/{made.name}"), "undeleted")


async def purge(visit: Visit) -> Response:
    """Remove a deleted topic's data now, on every broker, after the person has typed its id."""
    return await _removed(visit, visit.admin.purge_topics, "purged")


async def discard(visit: Visit) -> Response:
    """Delete the stray replicas of a topic after the person has typed its id."""
    return await _removed(visit, lambda ids: visit.admin.delete_topics(TopicCollection.of_topic_ids(ids)), "discarded")


async def _removed(visit: Visit, remove: Callable[[list[Uuid]], Awaitable[object]], done: str) -> Response:
    topic_id = _id(visit)
    if visit.form.raw("typed") != str(topic_id):
        return await _page(visit, 422, "The text differs from the id. Nothing was changed.")
    try:
        await remove([topic_id])
    except KafkaError as error:
        return await _page(visit, 422, in_words(error))
    return visit.redirect("/deletions", done)
