"""Pages of a topic's records: search, one record, export."""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
from typing import Any

from starlette.responses import Response

from pybroker.client import ConsumerRecord, TopicDescription, TopicPartition
from pybroker.console.queries import record_export, value_decoding
from pybroker.console.queries.fragments import Fragment, fragment
from pybroker.console.queries.record_search import Offsets, RecordPage, RecordQuery, all_partitions, find, find_record
from pybroker.console.screens.topic_pages import described
from pybroker.console.web.request_context import InputError, NotFoundError, PageContext, url_with

SEEKS = (("newest", "newest"), ("oldest", "oldest"), ("offset", "from an offset"), ("time", "from a time (UTC)"))
LIMITS = (20, 50, 100, 200, 500)
EXPORTED_MAX = 10_000
CURSOR_MAX = 2_000
"""Limit of partitions whose offsets fit into a URL."""


def shown_record(
    context: PageContext, record: ConsumerRecord, *, characters: int = value_decoding.LIST_CHARACTERS
) -> dict[str, Any]:
    """Return the parts of a record that a row or a page shows."""
    wanted = context.query.text("contains")
    how = context.query.text("format", "auto")
    schema = context.session.schemas.get(record.topic, (None, None))[1] if context.session is not None else None
    return {
        "record": record,
        "key": value_decoding.decode_value(record.key, "auto", characters=characters, around=wanted),
        "value": value_decoding.decode_value(record.value, how, schema, characters=characters, around=wanted),
        "headers": [
            (name, value_decoding.decode_value(value, characters=characters)) for name, value in record.headers
        ],
    }


def wanted_of(context: PageContext, topic: TopicDescription, limit_max: int) -> RecordQuery:
    """Return the query in the URL. Raises InputError."""
    query = context.query
    seek = query.text("seek", "newest")
    if seek not in dict(SEEKS):
        raise InputError(f"Invalid seek {seek[:40]!r}; valid: {', '.join(dict(SEEKS))}.")
    if query.text("format", "auto") not in value_decoding.FORMATS:
        raise InputError(f"Invalid format; valid: {', '.join(value_decoding.FORMATS)}.")
    number = 0
    if seek == "offset":
        number = query.number("offset", 0) or 0
    elif seek == "time":
        number = moment_of(query.text("time"))
    only = query.number("partition")
    with_leader = [each.partition for each in topic.partitions if each.leader is not None]
    partitions = all_partitions(topic.name, with_leader, only)
    if not partitions:
        raise InputError("The partition does not exist or has no leader.")
    limit = query.number("limit", 50, least=1, most=limit_max) or 50
    before, after = (offsets_of(topic.name, query.text(name)) for name in ("before", "after"))
    return RecordQuery(partitions, seek, number, limit, query.text("contains"), before, after)


def offsets_of(topic: str, text: str) -> Offsets | None:
    """Parse offsets that `written` put into a URL. Raises InputError."""
    if not text:
        return None
    found = {}
    for each in text.split("-"):
        partition, _, offset = each.partition(".")
        if not (partition.isdecimal() and offset.isdecimal() and len(each) <= 40):
            raise InputError("The address of this page is incomplete. Start again.")
        found[TopicPartition(topic, int(partition))] = int(offset)
    return found


def written(offsets: Offsets | None) -> str | None:
    """Return the offsets in the form for a URL, as in 0.120-1.98. None if there is no such page, or if it has too many
    partitions.
    """
    if offsets is None or len(offsets) > CURSOR_MAX:
        return None
    return "-".join(f"{where.partition}.{offset}" for where, offset in sorted(offsets.items()))


def moment_of(text: str) -> int:
    """Parse milliseconds since 1970, or a date and time, which is UTC if it has no time zone. Return milliseconds since
    1970."""
    if text.isdecimal() and len(text) <= 15:
        return int(text)
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InputError("Invalid time; use 2026-11-05T10:00 or milliseconds since 1970.") from None
    return int((found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


async def _found(context: PageContext, wanted: RecordQuery) -> RecordPage:
    async with context.clients.consumer() as consumer:
        return await find(context.admin, consumer, wanted)


async def show(context: PageContext) -> Response:
    """Show the form and its results."""
    topic = await described(context)
    return await messages_page(context, topic)


async def messages_page(
    context: PageContext, topic: TopicDescription, status: int = 200, problem: str | None = None
) -> Response:
    """Return the page. `problem`: the error of a failed request, which the page shows."""
    found: Fragment[RecordPage] = Fragment(None)
    try:
        found = await fragment(_found(context, wanted_of(context, topic, max(LIMITS))))
    except InputError as error:
        problem, status = str(error), 422
    records = found.value.records if found.value is not None else ()
    names = ("partition", "seek", "offset", "time", "limit", "contains", "format")
    fields = {name: context.query.text(name) for name in names}
    return context.render(
        "messages.html",
        status,
        tab="messages",
        topic=topic,
        found=found,
        rows=[shown_record(context, each) for each in records],
        problem=problem,
        seeks=SEEKS,
        limits=LIMITS,
        formats=value_decoding.FORMATS,
        fields=fields,
        address=lambda path, **more: url_with(f"/topics/{topic.name}/{path}", fields, **more),
        beside=_beside(topic, fields, found.value),
        has_parquet=importlib.util.find_spec("pyarrow") is not None,
        schema=context.session.schemas.get(topic.name, (None, None))[0] if context.session is not None else None,
    )


def _beside(topic: TopicDescription, fields: dict[str, str], found: RecordPage | None) -> list[tuple[str, str, str]]:
    """Return links to the pages of older and newer records as (text, rel, URL), in the order in which the page shows
    them."""
    if found is None:
        return []
    is_newest_first = fields["seek"] in ("", "newest")
    beside = []
    for words, name, offsets in (("Older", "before", found.older), ("Newer", "after", found.newer)):
        cursor = written(offsets)
        if cursor is not None:
            rel = "next" if (name == "before") is is_newest_first else "prev"
            address = url_with(f"/topics/{topic.name}/messages", {**fields, "offset": "", "time": "", name: cursor})
            beside.append((words, rel, address))
    return beside[::-1] if is_newest_first else beside


async def record(context: PageContext) -> Response:
    """Show one whole record."""
    topic = await described(context)
    partition, offset = context.query.number("partition"), context.query.number("offset")
    if partition is None or offset is None:
        raise InputError("The address must contain partition and offset.")
    async with context.clients.consumer(auto_offset_reset="none") as consumer:
        found = await find_record(consumer, TopicPartition(topic.name, partition), offset)
    if found is None:
        raise NotFoundError(f"{topic.name}-{partition} has no record at offset {offset:,}.")
    return context.render(
        "record.html",
        tab="messages",
        topic=topic,
        shown=shown_record(context, found, characters=value_decoding.PAGE_CHARACTERS),
        formats=value_decoding.FORMATS,
        how=context.query.text("format", "auto"),
    )


async def exported(context: PageContext) -> Response:
    """Return the results of the form as a file."""
    topic = await described(context)
    kind = context.path("kind")
    found = await _found(context, wanted_of(context, topic, EXPORTED_MAX))
    if kind == "ndjson":
        data, media = await asyncio.to_thread(record_export.ndjson, found.records), "application/x-ndjson"
    elif kind == "parquet":
        try:
            data, media = (
                await asyncio.to_thread(record_export.parquet, found.records),
                "application/vnd.apache.parquet",
            )
        except record_export.MissingPackageError as error:
            raise InputError(str(error)) from None
    else:
        raise NotFoundError("Invalid file type; use ndjson or parquet.")
    name = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in topic.name)
    disposition = f'attachment; filename="{name}.{kind}"'
    return Response(data, media_type=media, headers={"Content-Disposition": disposition})
