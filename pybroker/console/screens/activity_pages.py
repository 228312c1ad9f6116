"""Pages for running staged ingests and transactions."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from pybroker.client import IngestState, TransactionDescription
from pybroker.console.queries.fragments import TROUBLE, error_text, fragment
from pybroker.console.queries.topic_rows import parsed_id
from pybroker.console.web.request_context import InputError, PageContext

SHOWN = 200


async def ingests(context: PageContext) -> Response:
    """Show open ingests; with `all`, committed ones too."""
    return await _ingests(context)


async def _ingests(context: PageContext, status: int = 200, problem: str | None = None) -> Response:
    everything = bool(context.query.text("all"))
    found = await fragment(context.admin.list_ingests(include_committed=everything))
    rows = sorted(found.value or (), key=lambda each: -each.created_ms)
    return context.render(
        "ingests.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        everything=everything,
        open_state=IngestState.OPEN,
        problem=problem,
    )


async def abort_ingest(context: PageContext) -> Response:
    """Abort an ingest and drop its staged data."""
    topic_id = parsed_id(context.form.text("topic_id"))
    if topic_id is None:
        raise InputError("The form contains no topic.")
    batch = context.form.number("batch_id")
    try:
        state = await context.admin.abort_ingest(topic_id, context.form.raw("ingest_id"), batch_id=batch)
    except TROUBLE as error:
        return await _ingests(context, 422, error_text(error))
    if state is not IngestState.ABSENT:
        return await _ingests(context, 422, "The ingest is already committed and cannot be aborted.")
    return context.redirect("/ingests", "ingest-aborted")


async def transactions(context: PageContext) -> Response:
    """Show transactional ids with their states. `q`: text in the id; `open`: only transactions that are not finished.
    """
    query, only_open = context.query.text("q"), bool(context.query.text("open"))
    states = ("Ongoing", "PrepareCommit", "PrepareAbort") if only_open else ()
    found = await fragment(context.admin.list_transactions(states=states))
    listed = sorted(
        (each for each in found.value or () if query in each.transactional_id), key=lambda each: each.transactional_id
    )
    chosen = listed[:SHOWN]
    futures = context.admin.describe_transactions([each.transactional_id for each in chosen]).values()
    answers = await asyncio.gather(*futures.values(), return_exceptions=True)
    described = {
        name: answer
        for name, answer in zip(futures, answers, strict=True)
        if isinstance(answer, TransactionDescription)
    }
    return context.render(
        "transactions.html",
        found=found,
        rows=[(each, described.get(each.transactional_id)) for each in chosen],
        cut=max(len(listed) - SHOWN, 0),
        q=query,
        only_open=only_open,
    )
