"""Pages that change or delete a topic."""

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
from pybroker.console.queries.fragments import error_text
from pybroker.console.queries.topic_rows import parsed_id
from pybroker.console.screens.topic_pages import described, settings_page
from pybroker.console.web.request_context import InputError, NotFoundError, PageContext, url_with


async def change_setting(context: PageContext) -> Response:
    """Set a setting, or reset it to its default."""
    topic = await described(context)
    name = context.form.text("setting")
    remove = context.form.text("what") == "remove"
    change = AlterConfigOp(
        name, None if remove else context.form.text("value"), OpType.DELETE if remove else OpType.SET
    )
    try:
        await context.admin.incremental_alter_configs({ConfigResource.topic(topic.name): [change]})
    except KafkaError as error:
        return await settings_page(context, topic, 422, error_text(error))
    return context.redirect(url_with(f"/topics/{topic.name}/settings"), "settings-changed")


async def add_partitions(context: PageContext) -> Response:
    """Add partitions; partitions cannot be removed."""
    topic = await described(context)
    wanted = context.form.number("partitions", least=1, most=100_000)
    if wanted is None:
        raise InputError("Enter the new number of partitions.")
    try:
        await context.admin.create_partitions({topic.name: wanted})
    except KafkaError as error:
        raise InputError(error_text(error)) from None
    return context.redirect(url_with(f"/topics/{topic.name}"), "partitions-added")


async def ask_delete(context: PageContext) -> Response:
    """Show what a deletion would remove."""
    return await _delete_page(context)


async def _delete_page(context: PageContext, status: int = 200, problem: str | None = None) -> Response:
    topic = await described(context)
    impact = await deletion_impact(context.admin, topic.topic_id or topic.name)
    return context.render("topic_delete.html", status, tab="delete", topic=topic, impact=impact, problem=problem)


async def delete(context: PageContext) -> Response:
    """Delete exactly the displayed incarnation, purge it at once, or truncate it. The person has to type the topic's
    name first."""
    name = context.path("name")
    if context.form.raw("typed") != name:
        return await _delete_page(context, 422, "The text differs from the topic's name. Nothing was changed.")
    topic_id = parsed_id(context.form.text("topic_id"))
    which = TopicCollection.of_topic_ids([topic_id]) if topic_id else TopicCollection.of_topic_names([name])
    try:
        if context.form.text("what") == "truncate":
            await context.admin.truncate_topics(which, keep_offsets=bool(context.form.text("keep_offsets")))
            return context.redirect(url_with(f"/topics/{name}"), "topic-truncated")
        await context.admin.delete_topics(which)
        if context.form.text("what") == "purge" and topic_id is not None:
            await context.admin.purge_topics([topic_id])
            return context.redirect("/deletions", "topic-purged")
    except KafkaError as error:
        try:
            return await _delete_page(context, 422, error_text(error))
        except NotFoundError:
            raise InputError(error_text(error)) from None
    kept = context.form.text("keeps") == "yes"
    return context.redirect("/deletions" if kept else "/topics", "topic-deleted" if kept else "topic-deleted-for-good")
