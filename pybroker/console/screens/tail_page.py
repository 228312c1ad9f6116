"""Live tail of records. It is a stream of server-sent events with rows of HTML, which this module escapes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from pybroker.client import TopicPartition
from pybroker.console.queries.fragments import TROUBLE, error_text
from pybroker.console.queries.record_search import all_partitions, matches
from pybroker.console.queries.value_decoding import FORMATS
from pybroker.console.screens.message_pages import shown_record
from pybroker.console.screens.topic_pages import described
from pybroker.console.web.request_context import InputError, PageContext, url_with

LIFE_S = 1800.0
"""Lifetime of a tail in seconds. After that, the person has to reload the page."""
ROWS_A_TURN = 100
"""Limit of rows per event. If a topic is faster, further records are omitted."""
QUIET_S = 15.0
"""Seconds between keep-alive events. These events keep proxies from closing the connection, and show whether the
browser has closed it."""


async def show(context: PageContext) -> Response:
    """Show the page; its script requests the events."""
    topic = await described(context)
    fields = {name: context.query.text(name) for name in ("partition", "contains", "format")}
    return context.render(
        "tail.html",
        tab="messages",
        topic=topic,
        fields=fields,
        formats=FORMATS,
        events=url_with(f"/topics/{topic.name}/tail/events", fields),
        back=url_with(f"/topics/{topic.name}/messages", fields),
    )


async def events(context: PageContext) -> Response:
    """Stream the records as server-sent events."""
    topic = await described(context)
    there = [each.partition for each in topic.partitions]
    partitions = all_partitions(topic.name, there, context.query.number("partition"))
    if not partitions or context.query.text("format", "auto") not in FORMATS:
        raise InputError("Unknown partition or format.")
    return StreamingResponse(_stream(context, partitions), media_type="text/event-stream")


def _event(kind: str, data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


async def _stream(context: PageContext, partitions: tuple[TopicPartition, ...]) -> AsyncIterator[str]:
    if not context.clients.tails_left:
        yield _event("problem", "Too many live tails are open; close one.")
        return
    needle = context.query.text("contains").encode()
    give_up = time.monotonic() + LIFE_S
    sent_at = time.monotonic()
    away: str | None = None
    try:
        async with context.clients.tail() as consumer:
            consumer.assign(partitions)
            consumer.seek_to_end(*partitions)
            await asyncio.gather(*(consumer.position(each) for each in partitions))
            yield "retry: 2000\n" + _event("ready", "")
            while time.monotonic() < give_up and context.console.still_there(context):
                read = await consumer.poll(0.5)
                rows = [record for record in reversed(read) if matches(record, needle)]
                if rows:
                    shown = [shown_record(context, each) for each in rows[:ROWS_A_TURN]]
                    left_out = len(rows) - len(shown)
                    yield _event("records", context.render_fragment("record_rows.html", rows=shown, left_out=left_out))
                    sent_at = time.monotonic()
                elif not read:
                    problem = await _problem(context)
                    if problem != away:
                        yield _event("away", problem) if problem else _event("ready", "")
                        away = problem
                    if time.monotonic() - sent_at > QUIET_S:
                        yield ": still here\n\n"
                        sent_at = time.monotonic()
    except TROUBLE as error:
        yield _event("problem", error_text(error))
        return
    yield _event("end", "")


async def _problem(context: PageContext) -> str | None:
    """Return the reason why no broker responds; None if a broker responds. Without this check, a consumer would wait
    without a message."""
    try:
        await context.clients.ping()
    except TROUBLE as error:
        return f"The cluster does not respond; records appear when it responds again. {error_text(error)}"
    return None
