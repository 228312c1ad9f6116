"""Groups in a real browser: the list, one group, an offset reset with a preview, a deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from selenium.webdriver.support.select import Select

from pybroker import Broker
from pybroker.client import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from tests.console.chromium import Chromium

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> /../&?#\u202e"


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic("words", 2, 1), NewTopic("gone", 1, 1)])
        for number in range(20):
            await producer.send("words", str(number), partition=number % 2, timestamp_ms=None)
        await producer.send("gone", "x")
        for group in ("idle", HOSTILE, *(f"group-{number:02d}" for number in range(55))):
            await admin.alter_consumer_group_offsets(
                group, {TopicPartition("words", 0): 4, TopicPartition("words", 1): 10}
            )
        await admin.alter_consumer_group_offsets("idle", {TopicPartition("gone", 0): 1})


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """A broker with groups."""
    with Broker({"offsets.topic.num.partitions": 1}) as broker:
        asyncio.run(_fill(broker.bootstrap))
        yield broker


def cells(browser: Chromium, row: int) -> list[str]:
    """Return the texts of a row of the first table."""
    return [each.text for each in browser.one("table").find_elements("css selector", f"tbody tr:nth-child({row}) td")]


def committed(broker: Broker, group: str) -> dict[TopicPartition, int]:
    """Return the broker's stored offsets."""

    async def ask() -> dict[TopicPartition, int]:
        async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            return {where: at.offset for where, at in (await admin.list_consumer_group_offsets(group)).items()}

    return asyncio.run(ask())


def test_the_list_with_lag(browser: Chromium, address: str) -> None:
    browser.open(address + "/groups?q=idle")
    assert cells(browser, 1) == ["idle", "Empty", "classic", "3", "6"]
    browser.open(address + "/groups")
    names = [each.text for each in browser.all("tbody td:first-child")]
    browser.click("a[rel=next]")
    browser.until(lambda: "page=2" in browser.path and browser.all("tbody td"))
    names += [each.text for each in browser.all("tbody td:first-child")]
    assert len(names) == len(set(names)) == 57
    assert browser.driver.title != "owned"


def test_lag_in_records_and_time(browser: Chromium, address: str) -> None:
    browser.open(address + "/group?id=group-00")
    first, second = cells(browser, 1), cells(browser, 2)
    assert first[:5] == ["words", "0", "4", "10", "6"]
    assert first[5] not in ("–", "0")
    assert second[:6] == ["words", "1", "10", "10", "0", "0"]


def test_members(browser: Chromium, address: str, filled: Broker) -> None:
    async def look() -> None:
        settings = {"bootstrap.servers": filled.bootstrap, "group.id": "busy", "client.id": HOSTILE[:30]}
        async with Consumer({**settings, "group.protocol": "consumer", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["words"])
            await consumer.getone()
            await consumer.commit()
            await asyncio.to_thread(shown)

    def shown() -> None:
        browser.open(address + "/group?id=busy")
        browser.until(lambda: browser.driver.refresh() or HOSTILE[:30] in browser.text, "the member")
        assert browser.driver.title != "owned"
        assert "words-0, words-1" in browser.text
        assert "Stop them first" in browser.text
        browser.open(address + "/group/reset?id=busy&goal=earliest")
        assert "Nothing has changed yet" in browser.text

    asyncio.run(look())


def test_positions_are_moved_after_a_preview(browser: Chromium, address: str, filled: Broker) -> None:
    group = "group-01"
    browser.open(f"{address}/group?id={group}")
    Select(browser.one("select[name=goal]")).select_by_value("shift")
    browser.type("input[name=number]", "-3")
    browser.one("input[name=number]").submit()
    browser.until(lambda: browser.path.startswith("/group/reset"))
    assert cells(browser, 1)[:5] == ["words", "0", "4", "1", "-3"]
    assert committed(filled, group) == {TopicPartition("words", 0): 4, TopicPartition("words", 1): 10}
    browser.click("button.danger")
    browser.until(lambda: "The positions of the group were moved." in browser.text)
    assert committed(filled, group) == {TopicPartition("words", 0): 1, TopicPartition("words", 1): 7}
    goals = {"earliest": [0, 0], "latest": [10, 10], "offset&number=6": [6, 6], "time&number=9999999999999": [10, 10]}
    for goal, then in goals.items():
        browser.open(f"{address}/group/reset?id={group}&goal={goal}")
        assert [int(cells(browser, row)[3]) for row in (1, 2)] == then, goal


def test_a_hostile_group_is_deleted(browser: Chromium, address: str, filled: Broker) -> None:
    browser.open(f"{address}/group?id={quote(HOSTILE, safe='')}")
    assert HOSTILE.strip() in browser.text.replace("\u2069", "")
    assert browser.driver.title != "owned"
    browser.click("details.more summary")
    browser.click('form[action="/group/delete-offsets"] button')
    browser.until(lambda: "The positions were deleted." in browser.text or "There is no group" in browser.text)
    browser.open(address + "/group?id=group-02")
    browser.click("details.more summary")
    browser.type("input[name=typed]", "group-0")
    browser.click('form[action="/group/delete"] button')
    browser.until(lambda: "Nothing was changed" in browser.text)
    browser.click("details.more summary")
    browser.type("input[name=typed]", "group-02")
    browser.click('form[action="/group/delete"] button')
    browser.until(lambda: "The group was deleted." in browser.text)
    assert committed(filled, "group-02") == {}
    browser.open(address + "/group?id=group-02")
    assert "There is no group" in browser.text or "GROUP_ID_NOT_FOUND" in browser.text


def test_a_group_with_positions_of_a_topic_that_is_gone(browser: Chromium, address: str, filled: Broker) -> None:
    async def delete() -> None:
        async with AdminClient({"bootstrap.servers": filled.bootstrap}) as admin:
            await admin.delete_topics(["gone"])

    asyncio.run(delete())
    for path in ("/groups?q=idle", "/group?id=idle", "/group/reset?id=idle&goal=earliest"):
        browser.open(address + path)
        assert "words" in browser.text or "idle" in browser.text
        assert not browser.all("[role=alert]"), path
