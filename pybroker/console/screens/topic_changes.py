"""Changes of a topic."""

from __future__ import annotations

from starlette.responses import Response

from pybroker.client import (
    AlterConfigOp,
    ConfigResource,
    KafkaError,
    OpType,
    TopicCollection,
    deletion_impact,
)
from pybroker.console.queries.fragments import in_words
from pybroker.console.queries.topic_rows import parsed_id
from pybroker.console.screens.topic_pages import described, settings_page
from pybroker.console.web.request_context import InputError, NotFoundError, Visit, at


async def change_setting(visit: Visit) -> Response:
    """Set a setting, or reset it to its default."""
    topic = await described(visit)
    name = visit.form.text("setting")
    remove = visit.form.text("what") == "remove"
    change = AlterConfigOp(name, None if remove else visit.form.text("value"), OpType.DELETE if remove else OpType.SET)
    try:
        await visit.admin.incremental_alter_configs({ConfigResource.topic(topic.name): [change]})
    except KafkaError as error:
        return await settings_page(visit, topic, 422, in_words(error))
    return visit.redirect(at(f"/topics/{topic.name}/settings"), "settings-changed")


async def add_partitions(visit: Visit) -> Response:
    """Add partitions; their number cannot shrink."""
    topic = await described(visit)
    wanted = visit.form.number("partitions", least=1, most=100_000)
    if wanted is None:
        raise InputError("Enter the new number of partitions.")
    try:
        await visit.admin.create_partitions({topic.name: wanted})
    except KafkaError as error:
        raise InputError(in_words(error)) from None
    return visit.redirect(at(f"/topics/{topic.name}"), "partitions-added")


async def ask_delete(visit: Visit) -> Response:
    """Show what the deletion would remove."""
    return await _delete_page(visit)


async def _delete_page(visit: Visit, status: int = 200, problem: str | None = None) -> Response:
    topic = await described(visit)
    impact = await deletion_impact(visit.admin, topic.topic_id or topic.name)
    return visit.render("topic_delete.html", status, tab="delete", topic=topic, impact=impact, problem=problem)


async def delete(visit: Visit) -> Response:
    """Delete exactly the displayed incarnation after the person has typed its name, if requested without undelete; or
    truncate it.
    """
    name = visit.path("name")
    if visit.form.raw("typed") != name:
        return await _delete_page(visit, 422, "The text differs from the topic's name. Nothing was changed.")
    topic_id = parsed_id(visit.form.text("topic_id"))
    which = TopicCollection.of_topic_ids([topic_id]) if topic_id else TopicCollection.of_topic_names([name])
    try:
        if visit.form.text("what") == "truncate":
            await visit.admin.truncate_topics(which, keep_offsets=bool(visit.form.text("keep_offsets")))
            return visit.redirect(at(f"/topics/{name}"), "topic-truncated")
        await visit.admin.delete_topics(which)
        if visit.form.text("what") == "purge" and topic_id is not None:
            await visit.admin.purge_topics([topic_id])
            return visit.redirect("/deletions", "topic-purged")
    except KafkaError as error:
        try:
            return await _delete_page(visit, 422, in_words(error))
        except NotFoundError:
            raise InputError(in_words(error)) from None
    kept = visit.form.text("keeps") == "yes"
    return visit.redirect("/deletions" if kept else "/topics", "topic-deleted" if kept else "topic-deleted-for-good")
