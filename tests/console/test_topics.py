"""Overview, the list of topics and one topic, in a real browser, with a thousand topics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pybroker import Broker
from pybroker.client import AdminClient
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.console.queries.topic_rows import PAGE, topic_list
from pybroker.console.queries.visible_topics import TopicNames
from tests.console.chromium import Chromium
from tests.console.conftest import TOPICS

FIRST_PAINT_MS_MAX = 1_000


def topic_id(broker: Broker, name: str) -> str:
    """Return a topic's id as text."""

    async def ask() -> str:
        async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            return str((await admin.describe_topics([name]))[name].topic_id)

    return asyncio.run(ask())


def test_overview(browser: Chromium, address: str, filled: Broker) -> None:
    browser.open(address + "/")
    assert filled.cluster_id in browser.text
    assert "Healthy" in browser.text
    assert browser.one('dd a[href="/topics"]').text.replace(",", "").isdecimal()
    assert browser.one("tbody .badge").text == "controller"
    assert browser.complaints() == []


def test_a_thousand_topics_by_pages(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics?q=orders-")
    names: list[str] = []
    while True:
        names += [each.text for each in browser.all("tbody td:first-child a")]
        following = browser.all("a[rel=next]")
        if not following:
            break
        there = browser.path
        following[0].click()
        browser.until(lambda there=there: browser.path != there and browser.all("tbody tr"))
    assert names == sorted(names)
    assert len(names) == len(set(names)) == TOPICS


def test_the_first_page_is_painted_within_a_second(browser: Chromium, address: str) -> None:
    """Take the best of a few attempts: other tests use the machine too."""
    best = FIRST_PAINT_MS_MAX * 100.0
    for _ in range(10):
        browser.open(address + "/topics")
        best = min(best, browser.first_paint_ms())
        if best <= FIRST_PAINT_MS_MAX:
            break
    assert best <= FIRST_PAINT_MS_MAX


def test_topics_are_found_by_a_part_of_their_names(browser: Chromium, address: str) -> None:
    """The page shows totals, and the filter is in the address."""
    browser.open(address + "/topics")
    assert browser.one(".facts").text == f"{TOPICS:,} topics"
    browser.type(".filters input[type=search]", "RS-012")
    browser.click(".filters button")
    browser.until(lambda: "q=RS-012" in browser.path)
    assert [each.text for each in browser.all("tbody td:first-child a")] == [f"orders-012{each}" for each in range(10)]
    assert browser.one(".facts").text == f"{TOPICS:,} topics, 10 match"
    assert {each.text for each in browser.all("tbody td:first-child mark")} == {"rs-012"}
    browser.open(address + "/topics?q=0042")
    assert browser.one(".facts").text == f"{TOPICS:,} topics, 1 matches"
    browser.open(address + "/topics?q=nobody")
    assert "No topic has “nobody” in its name." in browser.text


def test_a_page_of_topics_has_a_number_and_an_address(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics?page=3")
    assert browser.one("tbody a").text == "orders-0100"
    assert browser.one(".pager [aria-current]").text == "3"
    assert [each.text for each in browser.all(".pager a")] == ["Previous", *"12345", "20", "Next"]
    browser.click(".pager a[aria-label='Page 20']")
    browser.until(lambda: browser.path == "/topics?page=20" and browser.one("tbody a").text == "orders-0950")
    browser.click("a[rel=prev]")
    browser.until(lambda: browser.path == "/topics?page=19")
    browser.open(address + "/topics?page=21")
    assert "Page 21 does not exist: the list has 20." in browser.text
    browser.open(address + "/topics?page=x")
    assert "is not a number" in browser.one("[role=alert]").text


async def test_a_page_asks_for_no_metadata_of_other_topics(filled: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    request = BrokerConnection.request

    async def noted(connection: BrokerConnection, message: Any, *given: Any, **named: Any) -> Any:
        asked.append(message)
        return await request(connection, message, *given, **named)

    monkeypatch.setattr(BrokerConnection, "request", noted)
    names = TopicNames()
    async with AdminClient({"bootstrap.servers": filled.bootstrap}) as admin:
        for page in (1, 2):
            found = await topic_list(admin, names, "rders", page, internal=False)
            assert (len(found.rows), found.matching, found.total) == (PAGE, TOPICS, TOPICS)
    kinds = [type(each).__name__ for each in asked]
    assert kinds.count("ListTopicsRequest") == 1, "pages of one list are cut from the same names"
    topics = [each.topics for each in asked if type(each).__name__ == "MetadataRequest"]
    assert topics
    assert all(each is not None and len(each) <= PAGE for each in topics)


def test_a_topic_is_found_by_its_id(browser: Chromium, address: str, filled: Broker) -> None:
    wanted = topic_id(filled, "orders-0042")
    browser.open(address + "/")
    browser.type("#find", wanted)
    browser.one("#find").submit()
    browser.until(lambda: [each.text for each in browser.all("tbody td:first-child a")] == ["orders-0042"])
    browser.open(f"{address}/topic-ids/{wanted}")
    assert browser.path == "/topics/orders-0042"


def test_partitions(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/orders-0000")
    rows = [[cell.text for cell in row.find_elements("css selector", "td")] for row in browser.all("tbody tr")]
    assert [row[0] for row in rows] == ["0", "1"]
    assert sum(int(row[7]) for row in rows) == 100
    assert all(row[1] == "1" and row[3] == row[4] == "1" and row[9] for row in rows)


def test_groups_of_a_topic(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/orders-0000/groups")
    cells = [cell.text for cell in browser.all("tbody td")]
    assert cells[0] == "readers"
    assert cells[-1] == "60"


def test_a_setting_is_changed_and_taken_back(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/orders-0001/settings")
    browser.click('a[aria-label="Change retention.ms"]')
    browser.until(lambda: browser.all("#value"))
    browser.type("#value", "12345678")
    browser.click('button[value="set"]')
    browser.until(lambda: "The settings were changed." in browser.text)
    own = browser.one("tr.own").text
    assert "retention.ms" in own
    assert "12345678" in own
    browser.open(address + "/topics/orders-0001/settings?edit=retention.ms")
    browser.click('button[value="remove"]')
    browser.until(lambda: browser.path.endswith("done=settings-changed") and not browser.all("tr.own"))
    browser.open(address + "/topics/orders-0001/settings?edit=retention.ms")
    browser.type("#value", "soon")
    browser.click('button[value="set"]')
    browser.until(lambda: "INVALID_CONFIG" in browser.text)


def test_a_topic_is_created_and_deleted(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/new")
    browser.type("input[name=name]", "fresh")
    browser.type("input[name=partitions]", "3")
    browser.type("textarea[name=config]", "cleanup.policy=compact")
    browser.click("form.card button")
    browser.until(lambda: browser.path.startswith("/topics/fresh"))
    assert "The topic was created." in browser.text
    assert len(browser.all("tbody tr")) == 3
    browser.open(address + "/topics/new")
    browser.type("input[name=name]", "fresh")
    browser.click("form.card button")
    browser.until(lambda: "TOPIC_ALREADY_EXISTS" in browser.text)

    browser.open(address + "/topics/fresh/delete")
    assert "can be undeleted" in browser.text
    browser.type("input[name=typed]", "fres")
    browser.click("button.danger")
    browser.until(lambda: "Nothing was changed" in browser.text)
    browser.type("input[name=typed]", "fresh")
    browser.click("button.danger")
    browser.until(lambda: browser.path.startswith("/deletions"))
    browser.open(address + "/topics/fresh/history")
    assert "staged" in browser.text or "deleting" in browser.text
    assert "There is no history of this topic" not in browser.text


def test_what_is_not_there(browser: Chromium, address: str) -> None:
    browser.open(address + "/topics/nobody")
    assert "There is no topic nobody" in browser.text
    browser.open(address + "/nowhere")
    assert "The page /nowhere does not exist" in browser.text
