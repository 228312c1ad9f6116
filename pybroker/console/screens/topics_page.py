"""The topic list, and the form for a new topic."""

from __future__ import annotations

from starlette.responses import Response

from pybroker.client import KafkaError, NewTopic, TopicCollection, TopicIncarnation, TopicListing, Uuid
from pybroker.client.topic_events import topic_events
from pybroker.console.queries.fragments import error_text, fragment
from pybroker.console.queries.topic_rows import TopicList, parsed_id, rows_of, topic_by_id, topic_list
from pybroker.console.web.request_context import Form, InputError, NotFoundError, PageContext, url_with


async def show(context: PageContext) -> Response:
    """Show a page of topics; `q`: text in the name, or an id."""
    query, internal = context.query.text("q"), bool(context.query.text("internal"))
    page = context.query.number("page", 1, least=1, most=10_000_000) or 1
    topic_id = parsed_id(query)
    found, dead = None, None
    if topic_id is not None:
        found, dead = await _by_id(context, topic_id)
    if found is None:
        found = await topic_list(context.admin, context.clients.topic_names, query, page, internal=internal)
    return context.render(
        "topics.html",
        topics=found,
        q=query,
        internal=internal,
        dead=dead,
        address=lambda page: url_with("/topics", q=query, internal=internal, page=page if page > 1 else None),
    )


async def _by_id(context: PageContext, topic_id: Uuid) -> tuple[TopicList | None, Uuid | None]:
    """Return the live topic with an id. If only deletion records contain the id, return the id without a topic."""
    topic = await topic_by_id(context.admin, topic_id)
    if topic is not None:
        rows, notes = await rows_of(context.admin, [TopicListing(topic.name, topic.topic_id, topic.internal)])
        return TopicList(rows, 1, notes=notes), None
    history = await fragment(_history(context, topic_id))
    return (TopicList((), 0), topic_id) if history.value else (None, None)


async def _history(context: PageContext, topic_id: Uuid) -> tuple[TopicIncarnation, ...]:
    return (await context.admin.describe_topic_history(TopicCollection.of_topic_ids([topic_id])))[topic_id]


async def by_id(context: PageContext) -> Response:
    """Redirect from a topic id to the live topic's page, or to its history."""
    topic_id = parsed_id(context.path("id"))
    if topic_id is None:
        raise NotFoundError(f"{context.path('id')[:60]} is not a topic id; a topic id has 22 characters.")
    topic = await topic_by_id(context.admin, topic_id)
    if topic is not None:
        return context.redirect(url_with(f"/topics/{topic.name}"))
    found = await fragment(_history(context, topic_id))
    if not found.value and not found.problem:
        raise NotFoundError(f"There is no topic with the id {topic_id} and no history of one.")
    events = topic_events(found.value or ())
    return context.render(
        "history.html", name=None, topic=None, topic_id=topic_id, history=found, events=events, tab="history"
    )


async def new(context: PageContext) -> Response:
    """Show the form for a new topic."""
    return context.render("topic_new.html", problem=None, form=Form([]))


async def create(context: PageContext) -> Response:
    """Create the topic and redirect to its page."""
    form = context.form
    try:
        name = form.text("name")
        if not name:
            raise InputError("Enter a name.")
        topic = NewTopic(
            name,
            form.number("partitions", -1, least=1, most=100_000) or -1,
            form.number("replication", -1, least=1, most=32_767) or -1,
            config=_settings(form.raw("config")),
        )
        await context.admin.create_topics([topic])
    except (KafkaError, InputError) as error:
        return context.render("topic_new.html", 422, problem=error_text(error), form=form)
    return context.redirect(url_with(f"/topics/{name}"), "topic-created")


def _settings(text: str) -> dict[str, str | None]:
    """Parse lines of key=value."""
    found: dict[str, str | None] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals:
            raise InputError(f"Settings: {line[:60]!r} is not in the form key=value.")
        found[key.strip()] = value.strip()
    return found
