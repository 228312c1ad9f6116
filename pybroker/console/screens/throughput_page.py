"""Charts of the last minutes, for an operator during an incident."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from pybroker.console.queries import cluster_activity
from pybroker.console.queries.fragments import TROUBLE, error_text
from pybroker.console.queries.measurements import History
from pybroker.console.web.charts import Curve, a_second, bytes_of, cores, curve, per_second, records
from pybroker.console.web.request_context import PageContext

NEEDS_METRICS = "requires --metrics-url"
DETAILS_SHOWN = 3


async def show(context: PageContext) -> Response:
    """Show the charts; the page's script reloads them every few seconds."""
    return context.render(
        "live.html",
        **await _page_values(context),
        by_metrics=bool(context.console.settings.metrics_urls),
        most=cluster_activity.TOPICS_MAX,
    )


async def curves(context: PageContext) -> Response:
    """Return only the charts."""
    return Response(context.render_fragment("curves.html", **await _page_values(context)), media_type="text/html")


async def _page_values(context: PageContext) -> dict[str, Any]:
    history = context.history
    await history.look()
    problems = list(history.last.problems)
    try:
        await context.clients.ping()
    except TROUBLE as error:
        problems = [f"The cluster does not respond; the charts continue when it responds again. {error_text(error)}"]
    return {"curves": tiles(history, by_metrics=bool(context.console.settings.metrics_urls)), "problems": problems}


def tiles(history: History, *, by_metrics: bool) -> list[Curve]:
    """Return the tiles in a fixed order, including those without values."""
    details, now = history.last.details, time.monotonic()

    def rate(title: str, name: str, words: Callable[[float], str], note: str = "") -> Curve:
        points = history.rates(name)
        why = note if points else ("unknown" if by_metrics else NEEDS_METRICS)
        return curve(title, points, words, now_s=now, is_current=history.is_current(points), note=why)

    def gauge(title: str, name: str, words: Callable[[float], str], note: str = "", why: str = "unknown") -> Curve:
        points = history.gauge(name)
        is_current = history.is_current(points)
        return curve(title, points, words, now_s=now, is_current=is_current, note=note if points else why)

    lags = details.get(cluster_activity.LAG) or ()
    largest = f"largest: {lags[0].group}" if lags and lags[0].records else "all groups together"
    errors = rate("Errors", cluster_activity.ERRORS, per_second("errors"), _kinds(history, cluster_activity.ERRORS))
    is_bad = bool(history.rates(cluster_activity.ERRORS)) and history.rates(cluster_activity.ERRORS)[-1][1] > 0
    return [
        rate("Records in", cluster_activity.RECORDS, per_second("records"), "written by producers"),
        rate("Bytes in", cluster_activity.IN, a_second, "written by producers"),
        rate("Bytes out", cluster_activity.OUT, a_second, "read by consumers"),
        rate("Requests", cluster_activity.REQUESTS, per_second("requests"), _kinds(history, cluster_activity.REQUESTS)),
        replace(errors, is_bad=is_bad),
        gauge("Consumer lag", cluster_activity.LAG, records, largest),
        gauge("Disk room", cluster_activity.DISK, bytes_of, str(details.get(cluster_activity.DISK, ""))),
        gauge("Memory", cluster_activity.MEMORY, bytes_of, "all brokers", "unknown" if by_metrics else NEEDS_METRICS),
        rate("CPU", cluster_activity.CPU, cores, "all brokers; 100 % means one core"),
    ]


def _kinds(history: History, name: str) -> str:
    """Return as text the most frequent kinds of a counter in the last interval."""
    kinds = [each.removeprefix(f"{name}: ") for each in history.last.counters if each.startswith(f"{name}: ")]
    now = {kind: points[-1][1] for kind in kinds if (points := history.rates(f"{name}: {kind}"))}
    most = sorted(((rate, kind) for kind, rate in now.items() if rate > 0), reverse=True)[:DETAILS_SHOWN]
    return ", ".join(f"{kind} {rate:.1f}/s" for rate, kind in most) or "none now"
