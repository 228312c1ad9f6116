"""Form for writing a record, and for the Avro schema of a topic's values."""

from __future__ import annotations

import base64
import binascii

from starlette.responses import Response

from pybroker.client import TopicDescription
from pybroker.console.queries.avro_decoding import AvroError, parsed_schema
from pybroker.console.queries.fragments import TROUBLE, in_words
from pybroker.console.screens.message_pages import messages_page
from pybroker.console.screens.topic_pages import described
from pybroker.console.web.request_context import Form, InputError, Visit, at


async def show(visit: Visit) -> Response:
    """Show the form."""
    return _form(visit, await described(visit), Form([]))


def _form(visit: Visit, topic: TopicDescription, form: Form, status: int = 200, problem: str | None = None) -> Response:
    return visit.render("produce.html", status, tab="messages", topic=topic, form=form, problem=problem)


async def write(visit: Visit) -> Response:
    """Write one record and redirect to its page."""
    topic = await described(visit)
    form = visit.form
    try:
        encoding = form.text("encoding", "text")
        key = None if form.text("key_null") or not form.raw("key") else _bytes(form.raw("key"), encoding, "Key")
        value = None if form.text("value_null") else _bytes(form.raw("value"), encoding, "Value")
        headers = _headers(form.raw("headers"))
        partition = form.number("partition", most=len(topic.partitions) - 1)
        async with visit.clients.producer() as producer:
            written = await producer.send(topic.name, value, key=key, partition=partition, headers=headers)
    except (*TROUBLE, InputError) as error:
        return _form(visit, topic, form, 422, in_words(error))
    where = at(f"/topics/{topic.name}/record", partition=written.partition, offset=written.offset)
    return visit.redirect(where, "produced")


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


async def keep_schema(visit: Visit) -> Response:
    """Decode the topic's values with this schema until the person's session ends; an empty text removes the schema."""
    topic = await described(visit)
    text = visit.form.raw("schema")
    session = await visit.own_session()
    if not text.strip():
        session.keep_schema(topic.name, None)
        return visit.redirect(at(f"/topics/{topic.name}/messages"), "schema-dropped")
    try:
        session.keep_schema(topic.name, (text, parsed_schema(text)))
    except AvroError as error:
        return await messages_page(visit, topic, 422, str(error))
    return visit.redirect(at(f"/topics/{topic.name}/messages", format="avro"), "schema-kept")
