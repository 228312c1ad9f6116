"""Pages of groups: the list, one group, reset and deletion of its offsets."""

from __future__ import annotations

from starlette.responses import Response

from pybroker.client import (
    GroupDescription,
    TopicPartition,
)
from pybroker.console.queries.fragments import TROUBLE, error_text, fragment
from pybroker.console.queries.group_lag import GroupLag, lags_of
from pybroker.console.queries.group_positions import GOALS, GroupOffset, positions, reset_preview, with_time
from pybroker.console.screens.message_pages import moment_of
from pybroker.console.web.request_context import InputError, NotFoundError, PageContext, url_with

PAGE = 50
PLAN_MAX = 4_000
"""Limit of partitions in one offset reset."""


async def show(context: PageContext) -> Response:
    """Show a page of groups with their lag; `q`: text in the name."""
    query, page = context.query.text("q"), context.query.number("page", 1, least=1, most=10_000_000) or 1
    listed = sorted(await context.admin.list_groups(), key=lambda each: each.group_id)
    matching = [each for each in listed if query.casefold() in each.group_id.casefold()]
    rows = matching[(page - 1) * PAGE : page * PAGE]
    lags = await fragment(lags_of(context.admin, [each.group_id for each in rows]))
    return context.render(
        "groups.html",
        rows=[(each, (lags.value or {}).get(each.group_id)) for each in rows],
        total=len(listed),
        matching=len(matching),
        page=page,
        pages=max(-(-len(matching) // PAGE), 1),
        address=lambda page: url_with("/groups", q=query, page=page if page > 1 else None),
        problem=lags.problem,
        q=query,
    )


def _group(context: PageContext) -> str:
    group = context.form.raw("id")
    if not group:
        raise InputError("The address contains no group; use /group?id=…")
    return group


async def one(context: PageContext) -> Response:
    """Show members and committed offsets."""
    return await _page(context, _group(context))


async def _page(context: PageContext, group: str, status: int = 200, problem: str | None = None) -> Response:
    described = (await context.admin.describe_groups([group]))[group]
    found = await fragment(_positions(context, described))
    if described.state == "Dead" and not found.value:
        raise NotFoundError(f"There is no group {group[:255]}.")
    rows = found.value or []
    return context.render(
        "group.html",
        status,
        group=described,
        rows=rows,
        failure=found.problem,
        lag=_total(described.group_id, rows) if found else GroupLag(described.group_id),
        lag_ms=max((each.lag_ms for each in rows if each.lag_ms is not None), default=None),
        topics=sorted({each.where.topic for each in rows if each.committed is not None}),
        goals=GOALS,
        problem=problem,
    )


def _total(group: str, rows: list[GroupOffset]) -> GroupLag:
    known = [each.lag for each in rows if each.lag is not None]
    return GroupLag(group, len(rows), sum(known) if known or not rows else None, len(rows) - len(known))


async def _positions(context: PageContext, described: GroupDescription) -> list[GroupOffset]:
    owners = {partition: member.member_id for member in described.members for partition in member.assignment}
    rows = await positions(context.admin, described.group_id, owners)
    if not any(each.lag for each in rows):
        return await with_time(None, rows)
    async with context.clients.consumer(max_partition_fetch_bytes=65_536) as consumer:
        return await with_time(consumer, rows)


async def preview(context: PageContext) -> Response:
    """Show the result of an offset reset without executing it."""
    group, query = _group(context), context.query
    goal = query.text("goal", "earliest")
    if goal not in GOALS:
        raise InputError(f"Invalid goal; valid: {', '.join(GOALS)}.")
    if goal == "time":
        number = moment_of(query.text("number"))
    else:
        number = query.number("number", 0, least=-(2**62) if goal == "shift" else 0) or 0
    topic = query.text("topic")
    committed = {where: each.offset for where, each in (await context.admin.list_consumer_group_offsets(group)).items()}
    chosen = [each for each in sorted(committed) if not topic or each.topic == topic]
    if len(chosen) > PLAN_MAX:
        raise InputError(f"{len(chosen):,} partitions are too many for a form; choose a topic.")
    plan = await reset_preview(context.admin, chosen, committed, goal, number)
    return context.render(
        "group_reset.html",
        group=group,
        plan=[(each, committed.get(each), plan[each]) for each in sorted(plan)],
        left_out=[each for each in chosen if each not in plan],
        goal=goal,
        topic=topic,
    )


async def move(context: PageContext) -> Response:
    """Execute exactly the offset reset that the preview showed."""
    group = _group(context)
    plan: dict[TopicPartition, int] = {}
    for text in context.form.all("to"):
        topic, _, rest = text.partition(" ")
        partition, _, offset = rest.partition(" ")
        if not (topic and partition.isdecimal() and offset.isdecimal() and len(rest) < 40):
            raise InputError("The form is invalid. Start again with the preview.")
        plan[TopicPartition(topic, int(partition))] = int(offset)
    if not plan:
        raise InputError("The form contains no positions.")
    try:
        await context.admin.alter_consumer_group_offsets(group, plan)
    except TROUBLE as error:
        return await _page(context, group, 422, error_text(error))
    return context.redirect(url_with("/group", id=group), "offsets-changed")


async def delete_offsets(context: PageContext) -> Response:
    """Delete the offsets of one topic."""
    group, topic = _group(context), context.form.text("topic")
    committed = await context.admin.list_consumer_group_offsets(group)
    wanted = [each for each in committed if each.topic == topic]
    if not wanted:
        raise InputError(f"The group has no positions of {topic[:255]}.")
    try:
        await context.admin.delete_consumer_group_offsets(group, wanted)
    except TROUBLE as error:
        return await _page(context, group, 422, error_text(error))
    return context.redirect(url_with("/group", id=group), "offsets-deleted")


async def delete(context: PageContext) -> Response:
    """Delete the group with its offsets. The person has to type the group's name first."""
    group = _group(context)
    if context.form.raw("typed") != group:
        return await _page(context, group, 422, "The text differs from the group's name. Nothing was changed.")
    try:
        await context.admin.delete_groups([group])
    except TROUBLE as error:
        return await _page(context, group, 422, error_text(error))
    return context.redirect("/groups", "group-deleted")
