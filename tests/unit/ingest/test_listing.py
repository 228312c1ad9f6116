"""Listings of ingests: in pages, without blocking other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from pybroker.broker.ingest.ingest_access import IngestAccess
from pybroker.protocol.messages import ListIngestsRequest
from pybroker.spark import ingest_steps
from pybroker.spark.cluster_requests import SparkCluster
from tests.unit.control_plane import ControlPlane, counted_turns
from tests.unit.ingest.held import HeldIngests, create, ingests, remember


async def test_a_long_listing_holds_nobody_up(control_plane: ControlPlane, held: HeldIngests) -> None:
    await control_plane.start()
    topic_id = await create(control_plane)
    await ingests(control_plane).begin((topic_id, "one", -1), -1, False)
    remember(control_plane, topic_id, 5000)
    request = ListIngestsRequest(topic_ids=None, ingest_id=None, include_committed=True)
    async with counted_turns() as turns:
        answer = await control_plane.call(32154, request)
    assert {listed.ingest_id for listed in answer.ingests} == {"one", *map(str, range(5000))}
    assert answer.next is None
    assert turns() >= 18, "looked through, and made"


async def pages(plane: ControlPlane, between: Callable[[], object] = lambda: None) -> list[list[str]]:
    """Return the names in each page of a whole listing."""
    request = ListIngestsRequest(topic_ids=None, ingest_id=None, include_committed=True)
    found = []
    while not found or request.after is not None:
        answer = await plane.call(32154, request)
        found.append([listed.ingest_id for listed in answer.ingests])
        request.after = answer.next
        between()
    return found


async def test_a_page_is_encoded_in_some_milliseconds(control_plane: ControlPlane, held: HeldIngests) -> None:
    """The time during which other tasks do not run is limited, however many ingests are remembered."""
    await control_plane.start()
    topic_id = await create(control_plane)
    remember(control_plane, topic_id, 25_000)
    found = await pages(control_plane)
    assert list(map(len, found)) == [10_000, 10_000, 5_000]
    assert sorted(name for page in found for name in page) == sorted(map(str, range(25_000)))


async def test_pages_have_each_ingest_once_whatever_comes_and_goes(
    control_plane: ControlPlane, held: HeldIngests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.broker.ingest.ingest_pages.PAGE_ENTRIES_MAX", 20)
    await control_plane.start()
    topic_id = await create(control_plane)
    remember(control_plane, topic_id, 90)
    remember(control_plane, topic_id, 1, named="wide", partitions=30)
    remember(control_plane, topic_id, 1, named="narrow", partitions=18)
    await ingests(control_plane).begin((topic_id, "open", -1), -1, False)
    await ingests(control_plane).begin((topic_id, "stream", 10), -1, False)
    remember(control_plane, topic_id, 1, named="stream", batch_id=9)
    numbers = iter(range(1000))

    def others() -> None:
        number = next(numbers)
        remember(control_plane, topic_id, 1, named=f"5 {number}")
        remember(control_plane, topic_id, 1, named="stream", batch_id=10 + number)

    found = await pages(control_plane, others)
    listed = [name for page in found for name in page if not name.startswith("5 ")]
    names = [*map(str, range(90)), "wide", "narrow", "open", "stream", "stream"]
    assert listed == sorted(names, key=lambda name: name + "/")
    assert all(len(page) <= 20 for page in found)
    assert ["wide"] in found, "more than a page by itself"
    assert ["narrow", "open"] in [page[-2:] for page in found]
    assert [] not in found, "a page that is full and the last has no cursor"


async def test_what_the_asker_may_not_see_takes_no_room_in_a_page(
    control_plane: ControlPlane, held: HeldIngests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.broker.ingest.ingest_pages.PAGE_ENTRIES_MAX", 10)
    await control_plane.start()
    topic_id, hidden = await create(control_plane), await create(control_plane, "hidden")
    remember(control_plane, hidden, 100)
    remember(control_plane, topic_id, 10)
    monkeypatch.setattr(IngestAccess, "lists", lambda _, context, topic: topic != "hidden")
    assert await pages(control_plane) == [list(map(str, range(10)))]


async def test_the_command_follows_pages(
    control_plane: ControlPlane, held: HeldIngests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.broker.ingest.ingest_pages.PAGE_ENTRIES_MAX", 10)
    await control_plane.start()
    remember(control_plane, await create(control_plane), 95)
    loop = asyncio.get_running_loop()

    class AskedHere:
        """A replacement for `SparkCluster` that turns requests into calls of the handler."""

        asked = 0

        def send(self, message: object, api_key: int, low: int, high: int) -> Any:
            self.asked += 1
            return asyncio.run_coroutine_threadsafe(control_plane.call(api_key, message, high), loop).result(30)

    cluster = AskedHere()
    found = await asyncio.to_thread(ingest_steps.listed, cast(SparkCluster, cluster))
    assert sorted(int(each.ingest_id) for each in found) == list(range(95))
    assert cluster.asked == 10
