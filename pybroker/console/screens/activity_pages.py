"""Pages for running staged ingests and transactions."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from pybroker.client import IngestState, TransactionDescription
from pybroker.console.queries.fragments import TROUBLE, in_words, part
from pybroker.console.queries.topic_rows import parsed_id
from pybroker.console.web.request_context import InputError, Visit

SHOWN = 200


async def ingests(visit: Visit) -> Response:
    """Show open ingests; with `all`, committed ones too."""
    return await _ingests(visit)


async def _ingests(visit: Visit, status: int = 200, problem: str | None = None) -> Response:
    everything = bool(visit.query.text("all"))
    found = await part(visit.admin.list_ingests(include_committed=everything))
    rows = sorted(found.value or (), key=lambda each: -each.created_ms)
    return visit.render(
        "ingests.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        everything=everything,
        open_state=IngestState.OPEN,
        problem=problem,
    )


async def abort_ingest(visit: Visit) -> Response:
    """Abort an ingest and drop its staged data."""
    topic_id = parsed_id(visit.form.text("topic_id"))
    if topic_id is None:
        raise InputError("The form contains no topic.")
    batch = visit.form.number("batch_id")
    try:
        state = await visit.admin.abort_ingest(topic_id, visit.form.raw("ingest_id"), batch_id=batch)
    except TROUBLE as error:
        return await _ingests(visit, 422, in_words(error))
    if state is not IngestState.ABSENT:
        return await _ingests(visit, 422, "The ingest is already committed and cannot be aborted.")
    return visit.redirect("/ingests", "ingest-aborted")


async def transactions(visit: Visit) -> Response:
    """Show transactional ids with their states. `q`: text in the id; `open`: only transactions that are not finished.
    """
    query, only_open = visit.query.text("q"), bool(visit.query.text("open"))
    states = ("Ongoing", "PrepareCommit", "PrepareAbort") if only_open else ()
    found = await part(visit.admin.list_transactions(states=states))
    listed = sorted(
        (each for each in found.value or () if query in each.transactional_id), key=lambda each: each.transactional_id
    )
    chosen = listed[:SHOWN]
    futures = visit.admin.describe_transactions([each.transactional_id for each in chosen]).values()
    answers = await asyncio.gather(*futures.values(), return_exceptions=True)
    described = {
        name: answer
        for name, answer in zip(futures, answers, strict=True)
        if isinstance(answer, TransactionDescription)
    }
    return visit.render(
        "transactions.html",
        found=found,
        rows=[(each, described.get(each.transactional_id)) for each in chosen],
        cut=max(len(listed) - SHOWN, 0),
        q=query,
        only_open=only_open,
    )
