"""Current activity of the cluster, from the brokers' admin requests and, if their URLs are configured, from their
/metrics."""

from __future__ import annotations

import asyncio

from pybroker.client import AdminClient, OffsetSpec
from pybroker.console.queries.fragments import fragment
from pybroker.console.queries.group_lag import GROUPS_MAX, GroupLag, lags_of
from pybroker.console.queries.measurements import Measurement
from pybroker.console.queries.metrics_scrape import ScrapedMetrics, ScrapeError
from pybroker.console.queries.partition_logs import ends, with_leader
from pybroker.console.queries.topic_rows import descriptions

TOPICS_MAX = 200
"""Limit of topics whose offsets are read when no /metrics are configured."""
BROKERS_MAX = 50

RECORDS, IN, OUT, REQUESTS, ERRORS, CPU = "records in", "bytes in", "bytes out", "requests", "errors", "cpu"
LAG, DISK, MEMORY = "lag", "disk room", "memory"


async def activity(admin: AdminClient, scraped: ScrapedMetrics) -> Measurement:
    """Take one measurement."""
    written, lags, disk, metrics = await asyncio.gather(
        fragment(_written(admin) if not scraped.urls else _nothing()),
        fragment(_lags(admin)),
        fragment(_least_room(admin)),
        _metrics(scraped),
    )
    counters = {**(written.value or {}), **metrics.counters}
    gauges, details = dict(metrics.gauges), dict(metrics.details)
    if lags.value is not None:
        details[LAG] = lags.value
        known = [each.records for each in lags.value if each.records is not None]
        if known or not lags.value:
            gauges[LAG] = sum(known)
    if disk.value is not None:
        gauges[DISK], details[DISK] = disk.value
    problems = [each.problem for each in (written, lags, disk) if each.problem and not each.absent]
    return Measurement(counters, gauges, details, (*metrics.problems, *problems))


async def _nothing() -> None:
    """Return an empty result, in place of a query whose value the brokers' /metrics contain."""


async def _written(admin: AdminClient) -> dict[str, float]:
    """Return the number of records written so far to the first TOPICS_MAX topics."""
    page = await admin.list_topics_page(limit=TOPICS_MAX)
    found = await descriptions(admin, [each.name for each in page.listings])
    last = await ends(admin, with_leader(found.values()), OffsetSpec.latest())
    return {RECORDS: float(sum(last.values()))}


async def _lags(admin: AdminClient) -> list[GroupLag]:
    """Return the groups, ordered by descending lag."""
    listed = sorted(await admin.list_groups(), key=lambda each: each.group_id)
    found = (await lags_of(admin, [each.group_id for each in listed[:GROUPS_MAX]])).values()
    return sorted(found, key=lambda each: (-(each.records or 0), each.group))


async def _least_room(admin: AdminClient) -> tuple[float, str] | None:
    """Return the free bytes and the name of the log directory with the least space; None if the brokers do not report
    it.
    """
    nodes = sorted((await admin.describe_cluster()).nodes)[:BROKERS_MAX]
    found = await admin.describe_log_dirs([node.id for node in nodes], partitions=())
    rooms = [
        (float(each.usable_bytes), f"broker {broker}: {path}")
        for broker, dirs in found.items()
        for path, each in dirs.items()
        if each.usable_bytes >= 0
    ]
    return min(rooms, default=None)


async def _metrics(scraped: ScrapedMetrics) -> Measurement:
    if not scraped.urls:
        return Measurement()
    try:
        return await scraped.measurement()
    except ScrapeError as error:
        return Measurement(problems=(str(error),))
