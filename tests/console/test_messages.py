"""Records in a real browser: search, a single record, writing, live view, files; hostile records."""

from __future__ import annotations

import asyncio
import html
import io
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import fastavro
import pyarrow.parquet as pq
import pytest
from selenium.webdriver.support.select import Select

from pybroker import Broker
from pybroker.client import AdminClient, NewTopic, Producer
from tests.console.chromium import Chromium
from tests.console.console_process import Browserless, text_of

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "long"}]}
SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
RIGHT_TO_LEFT = "\u202eevil \u05e9\u05dc\u05d5\u05dd"

NAMES = ("words", "hostile", "avro", "live", "empty", "shuffled", "long")
LONG = {"first": 1, "words": ["filler"] * 400, "wanted": "needle in it", "none": None}
ENDLESS_AVRO = (
    b'Obj\x01\x02\x16avro.schema\x0c"null"\x00' + b"s" * 16 + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00" + b"s" * 16
)
"""A file of 2^62 nulls."""
HOSTILE = (
    *(SCRIPT, RIGHT_TO_LEFT, b"\x00\xff\xfe" * 100, "x" * 900_000, None, b"", "[" * 5_000, '{"a": "</pre>"}'),
    ENDLESS_AVRO,
)


def datum(amount: int) -> bytes:
    """Encode an Avro record."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"amount": amount})
    return out.getvalue()


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer({**settings, "max.request.size": 2 << 20}) as producer:
        await admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "-1"}) for name in NAMES])
        for number in range(100):
            await producer.send(
                "words", f'{{"n": {number}}}', key=f"k{number}", partition=number % 2, timestamp_ms=1_000_000 + number
            )
        for value in HOSTILE:
            await producer.send("hostile", value, key=SCRIPT, partition=0, headers={SCRIPT: SCRIPT, "n": None})
        for number in range(60):
            at_ms = 1_000_000 + number * 7919 % 60
            await producer.send("shuffled", str(number), partition=number % 7 % 2, timestamp_ms=at_ms)
        await producer.send("live", '{"n":77}', partition=0)
        await producer.send("long", json.dumps(LONG), key="a key " * 60, partition=0, headers={"trace": "t" * 150})
        await producer.send("avro", datum(42), partition=0)
        await producer.send("avro", b"\x00\x00\x00\x00\x07" + datum(43), partition=0)


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """A broker with a few topics, in addition to those of the other files."""
    with Broker({"offsets.topic.num.partitions": 1}) as broker:
        asyncio.run(_fill(broker.bootstrap))
        yield broker


def keys(browser: Chromium) -> list[str]:
    """Return the texts in the column of keys."""
    return [each.text for each in browser.all(".records td.key pre")]


def test_newest_and_oldest(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/words/messages?limit=20")
    assert keys(browser) == [f"k{number}" for number in range(99, 79, -1)]
    Select(browser.one("select[name=seek]")).select_by_value("oldest")
    browser.click("button.main")
    browser.until(lambda: "seek=oldest" in browser.path and len(keys(browser)) == 20)
    assert keys(browser) == [f"k{number}" for number in range(20)]
    assert browser.complaints() == []


def test_by_partition_offset_time_and_text(browser: Chromium, address: str) -> None:
    base = address + "/topics/words/messages?limit=20&"
    browser.open(base + "seek=offset&offset=45&partition=1")
    assert keys(browser) == [f"k{number}" for number in range(91, 100, 2)]
    browser.open(base + "seek=time&time=1000090")
    assert keys(browser) == [f"k{number}" for number in range(90, 100)]
    browser.open(base + "seek=oldest&contains=%22n%22:+77")
    assert keys(browser) == ["k77"]
    assert "1 record of 100 searched" in browser.text
    browser.open(base + "contains=nowhere")
    assert "No record with “nowhere”" in browser.text
    browser.open(base + "seek=oldest&partition=0")
    browser.click("a[rel=next]")
    browser.until(lambda: "after=0.20" in browser.path and keys(browser)[:1] == ["k40"])
    browser.open(address + "/topics/empty/messages")
    assert "No record from this position on" in browser.text
    for wrong in ("seek=never", "seek=time&time=soon", "partition=7", "offset=x&seek=offset", "limit=100000"):
        browser.open(address + "/topics/words/messages?" + wrong)
        assert browser.all("[role=alert]"), wrong


def walk(person: Browserless, path: str, rel: str) -> list[list[tuple[int, int]]]:
    """Return (partition, offset) of the records of each page, starting from one page and following its links."""
    pages = []
    while True:
        page = person.get(path).text
        pages.append([(int(p), int(o)) for p, o in re.findall(r"record\?partition=(\d+)&amp;offset=(\d+)", page)])
        link = re.search(rf'rel="{rel}" href="([^"]+)"', page)
        if link is None:
            return pages
        path = html.unescape(link[1])
        assert len(pages) < 20, "the pages have no end"


@pytest.mark.parametrize("topic", ["words", "shuffled"])
@pytest.mark.parametrize("seek", ["newest", "oldest"])
def test_older_and_newer_pages_have_each_record_once(person: Browserless, topic: str, seek: str) -> None:
    """This holds across partitions, and if the records' times are not in the order of offsets."""
    count = 100 if topic == "words" else 60
    begin = f"/topics/{topic}/messages?seek={seek}&limit=20"
    pages = walk(person, begin, "next")
    seen = [each for page in pages for each in page]
    assert len(seen) == len(set(seen)) == count
    assert [len(page) for page in pages] == [20] * (count // 20)
    ends = {partition: max(o for p, o in seen if p == partition) + 1 for partition in (0, 1)}
    last = f"{begin}&before=0.3-1.3" if seek == "newest" else f"{begin}&after=0.{ends[0] - 3}-1.{ends[1] - 3}"
    back = walk(person, last, "prev")
    again = [each for page in back for each in page]
    assert len(again) == len(set(again)) == count
    if topic == "words":
        by_time = sorted(seen, key=lambda each: (each[1], each[0]), reverse=seek == "newest")
        assert seen == by_time


def test_older_and_newer_in_the_browser(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/words/messages?limit=20")
    assert [each.text for each in browser.all(".pager a")] == ["Older"] * 2
    browser.click("a[rel=next]")
    browser.until(lambda: keys(browser) == [f"k{number}" for number in range(79, 59, -1)])
    browser.click("a[rel=prev]")
    browser.until(lambda: keys(browser) == [f"k{number}" for number in range(99, 79, -1)])
    browser.open(address + "/topics/words/messages?before=nonsense")
    assert "Start again" in browser.one("[role=alert]").text


def test_a_search_goes_on_where_it_stopped(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/words/messages?limit=20&contains=n")
    assert len(keys(browser)) == 20
    browser.click("a[rel=next]")
    browser.until(lambda: keys(browser) == [f"k{number}" for number in range(79, 59, -1)])


def test_a_long_value_is_folded_and_unfolds_where_it_is(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/long/messages")
    cell = "td.value details.fold"
    assert not browser.one(f"{cell} pre").is_displayed()
    assert len(browser.one(f"{cell} summary code").text) < 300
    where = (browser.path, browser.script("return scrollY"))
    browser.click(f"{cell} summary")
    browser.until(lambda: '"first": 1,\n' in browser.one(f"{cell} pre").text)
    assert not browser.one(f"{cell} summary code").is_displayed()
    assert (browser.path, browser.script("return scrollY")) == where
    assert browser.all("td.key details.fold")
    widths = browser.script("return ['key', 'headers'].map(e => document.querySelector('td.' + e).offsetWidth)")
    assert min(widths) >= 170
    assert browser.violations() == []


def test_json_is_coloured(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/words/record?partition=1&offset=3")
    kinds = ("json-name", "json-number")
    assert [browser.one(f".record pre .{kind}").text for kind in kinds] == ['"n"', "7"]
    browser.open(address + "/topics/long/messages")
    browser.click("td.value summary")
    colours = browser.script(
        "return [...document.querySelectorAll('td.value pre, td.value pre span')].map(e => getComputedStyle(e).color)"
    )
    assert len(set(colours)) >= 4
    assert browser.complaints() == []


@pytest.mark.parametrize(("topic", "wanted"), [("words", '"n": 77'), ("live", '"n":77'), ("long", "needle in it")])
def test_what_was_looked_for_is_marked(browser: Chromium, address: str, topic: str, wanted: str) -> None:
    """Matches are marked also far from the beginning of a value, and in JSON whose blanks differ from the shown
    ones."""
    browser.open(f"{address}/topics/{topic}/messages?contains={quote(wanted)}")
    assert len(browser.all("td.value")) == 1
    shown = browser.script("return [...document.querySelectorAll('td.value pre mark')].map(e => e.textContent)")
    assert "".join(shown).replace(" ", "") == wanted.replace(" ", "")
    first = browser.one("td.value summary, td.value pre")
    assert "".join(each.text for each in first.find_elements("css selector", "mark")).strip()
    assert browser.violations() == []


def test_one_record(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/words/record?partition=1&offset=3")
    assert [each.text for each in browser.all(".record > pre")] == ["k7", '{\n  "n": 7\n}']
    browser.open(address + "/topics/words/record?partition=1&offset=3&format=hex")
    assert browser.all(".record > pre")[1].text.startswith("000000  7b 22 6e")
    browser.open(address + "/topics/words/record?partition=1&offset=3000")
    assert "no record at offset 3,000" in browser.text


def test_a_record_is_written(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/live/produce")
    browser.type("input[name=partition]", "0")
    browser.type("input[name=key]", "by hand")
    browser.type("textarea[name=value]", "line one\nline two")
    browser.type("textarea[name=headers]", "from: a person")
    browser.click("form.card button.main")
    # By its key alone, the record would go to partition 1.
    browser.until(lambda: browser.path.startswith("/topics/live/record?partition=0&"))
    assert "The record was written." in browser.text
    assert [each.text for each in browser.all(".record > pre")] == ["by hand", "line one\nline two"]
    assert "a person" in browser.text


def test_live_tail(browser: Chromium, address: str, filled: Broker) -> None:
    browser.open(address + "/topics/live/tail?contains=wanted")
    browser.until(lambda: "Live:" in browser.text, "the tail")

    async def write() -> None:
        async with Producer({"bootstrap.servers": filled.bootstrap}) as producer:
            for number in range(5):
                await producer.send("live", f"wanted {number}", key=SCRIPT)
            await producer.send("live", "other")

    asyncio.run(write())
    browser.until(lambda: len(browser.all("tbody tr")) == 5, "the records")
    assert sorted(each.text for each in browser.all("td.value pre")) == [f"wanted {number}" for number in range(5)]
    assert browser.driver.title != "owned"
    browser.click("#tail-stop")
    browser.until(lambda: "Stopped." in browser.text)


def test_files(person: Browserless) -> None:
    lines = person.get("/topics/words/export/ndjson?seek=oldest&limit=10000").text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert sorted(row["key"] for row in rows) == sorted(f"k{number}" for number in range(100))
    assert {row["topic"] for row in rows} == {"words"}
    hostile = [json.loads(line) for line in person.get("/topics/hostile/export/ndjson").text.splitlines()]
    assert {"base64"} in [set(row["value"]) for row in hostile if isinstance(row["value"], dict)]


def test_parquet(address: str) -> None:
    import urllib.request

    with urllib.request.urlopen(address + "/topics/hostile/export/parquet?seek=oldest") as answer:
        assert answer.headers["Content-Disposition"] == 'attachment; filename="hostile.parquet"'
        table = pq.read_table(io.BytesIO(answer.read()))
    assert table.num_rows == len(HOSTILE)
    assert table.column("value").to_pylist()[:2] == [SCRIPT.encode(), RIGHT_TO_LEFT.encode()]


def test_avro_with_a_schema_of_ones_own(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/avro/messages?format=avro")
    assert "Avro requires a schema" in browser.text
    browser.click("details.more summary")
    browser.type("#schema", "{not a schema")
    browser.click("details.more button")
    browser.until(lambda: "This is not an Avro schema" in browser.text)
    if not browser.all("details.more[open]"):
        browser.click("details.more summary")
    browser.type("#schema", json.dumps(SCHEMA))
    browser.click("details.more button")
    browser.until(lambda: "Values are decoded with this schema" in browser.text)
    assert sorted(each.text for each in browser.all("td.value pre")) == ['{"amount": 42}', '{"amount": 43}']


def test_hostile_records_do_nothing(browser: Chromium, address: str) -> None:
    for how in ("auto", "json", "text", "hex", "avro"):
        browser.open(f"{address}/topics/hostile/messages?format={how}")
        assert len(browser.all(".records tbody tr")) == len(HOSTILE)
        assert browser.driver.title != "owned"
        assert not browser.all(".records script, .records img")
    browser.open(address + "/topics/hostile/messages?limit=100")
    assert SCRIPT in [each.text for each in browser.all("td.value pre")]
    assert len(browser.script("return document.documentElement.outerHTML")) < 200_000
    for offset in range(len(HOSTILE)):
        browser.open(f"{address}/topics/hostile/record?partition=0&offset={offset}")
        assert browser.all("h2"), offset
        assert browser.driver.title != "owned"
    assert browser.complaints() == []


def test_the_search_itself_is_escaped(person: Browserless) -> None:
    page = person.get("/topics/words/messages?contains=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in page.text
    assert "<script>alert(1)</script>" in text_of(page.text)
