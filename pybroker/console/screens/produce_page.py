"""Form for writing a record, and for the Avro schema of a topic's values."""

from __future__ import annotations

import base64
import binascii

from starlette.responses import Response

from pybroker.client import TopicDescription
from pybroker.console.queries.avro_decoding import AvroError, parsed_schema
from pybroker.console.queries.fragments import TROUBLE, error_text
from pybroker.console.screens.message_pages import messages_page
from pybroker.console.screens.topic_pages import described
from pybroker.console.web.request_context import Form, InputError, PageContext, url_with


async def show(context: PageContext) -> Response:
    """Show the form."""
    return _form(context, await described(context), Form([]))


def _form(
    context: PageContext, topic: TopicDescription, form: Form, status: int = 200, problem: str | None = None
) -> Response:
    return context.render("produce.html", status, tab="messages", topic=topic, form=form, problem=problem)


async def write(context: PageContext) -> Response:
    """Write one record and redirect to its page."""
    topic = await described(context)
    form = context.form
    try:
        encoding = form.text("encoding", "text")
        key = None if form.text("key_null") or not form.raw("key") else _bytes(form.raw("key"), encoding, "Key")
        value = None if form.text("value_null") else _bytes(form.raw("value"), encoding, "Value")
        headers = _headers(form.raw("headers"))
        partition = form.number("partition", most=len(topic.partitions) - 1)
        async with context.clients.producer() as producer:
            written = await producer.send(topic.name, value, key=key, partition=partition, headers=headers)
    except (*TROUBLE, InputError) as error:
        return _form(context, topic, form, 422, error_text(error))
    where = url_with(f"/topics/{topic.name}/record", partition=written.partition, offset=written.offset)
    return context.redirect(where, "produced")


def _bytes(text: str, encoding: str, what: str) -> bytes:
    if encoding != "base64":
        return text.encode()
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{what}: invalid base64: {error}.") from None


def _headers(text: str) -> list[tuple[str, bytes | str | None]]:
    """Parse lines of `name: value`."""
    found: list[tuple[str, bytes | str | None]] = []
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = line.partition(":")
        if not colon:
            raise InputError(f"Headers: {line[:60]!r} is not in the form name: value.")
        found.append((name.strip(), value.strip()))
    return found


async def keep_schema(context: PageContext) -> Response:
    """Use this schema for the topic's values until the person's session ends; an empty text removes the schema."""
    topic = await described(context)
    text = context.form.raw("schema")
    session = await context.own_session()
    if not text.strip():
        session.keep_schema(topic.name, None)
        return context.redirect(url_with(f"/topics/{topic.name}/messages"), "schema-dropped")
    try:
        session.keep_schema(topic.name, (text, parsed_schema(text)))
    except AvroError as error:
        return await messages_page(context, topic, 422, str(error))
    return context.redirect(url_with(f"/topics/{topic.name}/messages", format="avro"), "schema-kept")
