"""Rates: of a broker's metrics if their address is known, else of topics' offsets."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from pybroker.client import AdminClient, OffsetSpec
from pybroker.console.facts.metrics import ScrapeError
from pybroker.console.facts.offsets import ends, with_leader
from pybroker.console.facts.parts import TROUBLE, in_words
from pybroker.console.facts.rates import Chart, Rates
from pybroker.console.facts.topics import descriptions
from pybroker.console.web.visits import Visit, at

TOPICS_MAX = 200
"""Whose offsets are looked at for one chart page."""


async def show(visit: Visit) -> Response:
    """The charts; the page's script fetches them again every few seconds."""
    charts, problem = await _charts(visit)
    return visit.render(
        "live.html",
        charts=charts,
        problem=problem,
        by_metrics=bool(visit.console.settings.metrics_urls),
        q=visit.query.text("q"),
        most=TOPICS_MAX,
        again=at("/live/charts", q=visit.query.text("q")),
    )


async def charts(visit: Visit) -> Response:
    """Only the charts."""
    found, problem = await _charts(visit)
    return Response(visit.part("charts.html", charts=found, problem=problem), media_type="text/html")


async def _charts(visit: Visit) -> tuple[list[Chart], str | None]:
    try:
        found = await _rates(visit).charts()
    except (*TROUBLE, ScrapeError) as error:
        return [], str(error) if isinstance(error, ScrapeError) else in_words(error)
    return found, "; ".join(visit.console.scraped.missing) or None


def _rates(visit: Visit) -> Rates:
    """One for all who see the same: the metrics' for everybody, the offsets' for each person's clients."""
    if visit.console.settings.metrics_urls:
        return visit.console.rates.of("", lambda: Rates(visit.console.scraped.sample))
    prefix, admin = visit.query.text("q"), visit.admin
    return visit.clients.rates.of(prefix, lambda: Rates(lambda: _written(admin, prefix)))


async def _written(admin: AdminClient, prefix: str) -> Mapping[str, float]:
    """Topic → how many records were written so far."""
    page = await admin.list_topics_page(prefix=prefix, limit=TOPICS_MAX)
    found = await descriptions(admin, [each.name for each in page.listings])
    last = await ends(admin, with_leader(found.values()), OffsetSpec.latest())
    written: dict[str, float] = {}
    for where, offset in last.items():
        written[where.topic] = written.get(where.topic, 0.0) + offset
    return {"All of these topics": sum(written.values()), **written}
