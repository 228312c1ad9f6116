"""The pages Live and Overview: current activity, in units for people; a dash for an unknown value."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pybroker import Broker
from pybroker.client import AdminClient, NewTopic, Producer, TopicPartition
from pybroker.console.queries import measurements
from pybroker.console.queries.cluster_activity import LAG, RECORDS
from pybroker.console.queries.measurements import History, Measurement
from pybroker.console.queries.metrics_scrape import ScrapedMetrics, ScrapeError
from pybroker.console.screens import throughput_page
from pybroker.testing.child_processes import free_port
from tests.console.chromium import Chromium
from tests.console.console_process import Browserless, console

METRICS = """# HELP kafka_network_requestmetrics_requests_total Requests.
kafka_network_requestmetrics_requests_total{{request="Produce"}} {requests}
kafka_network_requestmetrics_errors_total{{request="Fetch",error="UNKNOWN_TOPIC_ID"}} {looks}
kafka_server_brokertopicmetrics_bytesin_total {bytes}
kafka_server_brokertopicmetrics_bytesin_total{{topic="a"}} 5
process_resident_memory_bytes 104857600
other_total{{x="\\"}}"}} nonsense
"""
TILES = ["Records in", "Bytes in", "Bytes out", "Requests", "Errors", "Consumer lag", "Disk room", "Memory", "CPU"]


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(name, 1, 1) for name in ("words", *(f"gone-{n}" for n in range(7)))])
        for number in range(20):
            await producer.send("words", str(number))
        for number in range(7):
            await admin.alter_consumer_group_offsets(f"group-{number}", {TopicPartition("words", 0): number})
            await admin.delete_topics([f"gone-{number}"])


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """A broker with lagging groups, deleted topics, and /metrics."""
    with Broker({"offsets.topic.num.partitions": 1, "metrics.listener": f"127.0.0.1:{free_port()}"}) as broker:
        asyncio.run(_fill(broker.bootstrap))
        yield broker


def tiles(page: str) -> dict[str, str]:
    """Return title → figure of a page with charts."""
    return dict(re.findall(r"<figcaption><span>([^<]*)</span><strong>([^<]*)</strong>", page))


def test_tiles_have_figures_when_the_page_is_loaded_first(person: Browserless) -> None:
    found = tiles(person.get("/live").text)
    assert list(found) == TILES
    assert re.fullmatch(r"[\d.]+ records/s", found["Records in"])
    assert found["Consumer lag"] == f"{sum(20 - number for number in range(7))} records"
    assert re.fullmatch(r"[\d.]+ [KMGT]iB", found["Disk room"])
    without = {title for title, figure in found.items() if figure == "–"}
    assert without == {"Bytes in", "Bytes out", "Requests", "Errors", "Memory", "CPU"}, "not known is not 0"
    assert 'role="alert"' not in person.get("/live").text, "that /metrics are not configured is no error"


@contextlib.contextmanager
def metrics_of_a_broker() -> Iterator[tuple[str, list[str]]]:
    """Serve a metrics page whose values grow with each scrape; yield its address and the list of scrapes."""
    asked: list[str] = []

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = METRICS.format(requests=len(asked) * 1_000, looks=len(asked), bytes=len(asked) << 22).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics", asked
    finally:
        server.shutdown()
        server.server_close()


def test_curves_of_brokers_metrics(browser: Chromium, filled: Broker) -> None:
    """One of the brokers is down."""
    away = f"http://127.0.0.1:{free_port()}/metrics"
    with metrics_of_a_broker() as (one, _), metrics_of_a_broker() as (other, asked):
        urls = [f"--metrics-url={url}" for url in (one, other, away)]
        with console(filled.bootstrap, *urls) as address:
            browser.open(address + "/live")
            assert browser.all("polyline"), "the first page has curves"
            assert asked
            found = tiles(browser.script("return document.body.innerHTML"))
            assert re.fullmatch(r"[\d.]+ MiB/s", found["Bytes in"])
            assert re.fullmatch(r"[\d,.]+ requests/s", found["Requests"])
            assert found["Memory"] == "–", "of some brokers only it would be too little"
            assert "Produce" in browser.text
            assert "UNKNOWN_TOPIC_ID" in browser.one(".chart.bad").text
            assert f"{away}: " in browser.one(".note.bad").text
            axis = [each.text for each in browser.all(".chart.bad .times span")]
            assert axis == ["1 min ago", "30 s ago", "now"]
            assert browser.violations() == []
            before = browser.one("polyline").get_attribute("points")
            browser.until(lambda: browser.one("polyline").get_attribute("points") != before, "the next look")
        with console(filled.bootstrap, f"--metrics-url={one}") as address:
            browser.open(address + "/live")
            found = tiles(browser.script("return document.body.innerHTML"))
            assert found["Memory"] == "100.0 MiB"
            assert found["CPU"] == "–"


async def test_a_broker_that_goes_and_comes_is_no_leap() -> None:
    with metrics_of_a_broker() as (one, asked):
        urls = [one, f"http://127.0.0.1:{free_port()}/metrics"]
        broken = ScrapedMetrics(urls)
        title = "requests: Produce"
        assert [(await broken.sample())[title] for _ in range(3)] == [0, 1_000, 2_000]
        assert len(broken.missing) == 1
        asked.clear()  # the broker restarts
        assert (await broken.sample())[title] == 3_000
    with pytest.raises(ScrapeError):
        await broken.sample()
    with metrics_of_a_broker() as (again, asked):
        urls[:] = [again]
        asked.extend([""] * 1_000)
        assert [(await broken.sample())[title] for _ in range(2)] == [3_000, 4_000]


def test_the_overview_shows_what_goes_on(browser: Chromium, address: str) -> None:
    browser.open(address + "/")
    figures = {each.text.partition("\n")[0]: each.text.partition("\n")[2] for each in browser.all(".tiles > div")}
    assert re.fullmatch(r"[\d.]+ records/s", figures["Records in"])
    assert figures["Bytes in"] == "–"
    assert figures["Consumer lag"] == "119 records"
    groups = [[cell.text for cell in row.find_elements("css selector", "td")] for row in browser.all("#lags tbody tr")]
    assert groups == [[f"group-{number}", str(20 - number)] for number in range(5)]
    names = [each.text for each in browser.all("#latest tbody td:first-child")]
    assert names == [f"gone-{number}" for number in (6, 5, 4, 3, 2)]


def test_deletions_are_found_by_a_part_of_their_names(browser: Chromium, address: str) -> None:
    browser.open(address + "/deletions?q=NE-3")
    assert [each.text for each in browser.all("tbody tr:not(.sub) td:first-child")] == ["gone-3"]
    assert browser.one("tbody mark").text == "ne-3"


def test_the_last_deletion_is_undone_on_the_overview(browser: Chromium, address: str) -> None:

    def has_way_back() -> bool:
        browser.open(address + "/")
        return bool(browser.all("#latest button"))

    browser.until(has_way_back, "the way back")
    browser.click("#latest button[aria-label^='Undelete gone-6']")
    browser.until(lambda: browser.path.startswith("/topics/gone-6") and "The topic was undeleted." in browser.text)


async def test_a_figure_that_is_not_known_any_more_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "PAUSE_S", 0.01)
    monkeypatch.setattr(measurements, "FIRST_PAUSE_S", 0.01)
    known = [Measurement({RECORDS: number * 10.0}, {LAG: 7.0}) for number in range(3)]

    failed = asyncio.Event()

    async def take() -> Measurement:
        if not known:
            failed.set()
            raise OSError("away")
        return known.pop(0)

    measured = History(take)
    await measured.look()
    await failed.wait()
    await asyncio.sleep(0)
    await measured.close()
    found = {each.title: each for each in throughput_page.tiles(measured, by_metrics=False)}
    assert measured.last.problems == ("away",)
    assert found["Records in"].now == found["Consumer lag"].now == found["Memory"].now == "–"
    assert found["Consumer lag"].points, "the curve of before stays"
    assert "7 records" in found["Consumer lag"].top


async def test_nobody_looks_and_nothing_is_measured() -> None:
    now = [0.0]
    looks: list[float] = []

    async def take() -> Measurement:
        looks.append(now[0])
        now[0] += measurements.UNWATCHED_S
        return Measurement()

    measured = History(take, lambda: now[0])
    await measured.look()
    assert looks == [0.0]
    await measured.close()
