"""One broker with a thousand topics, one console, one browser for all tests of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pybroker import Broker
from pybroker.client import AdminClient, Consumer, NewTopic, Producer
from tests.console.chromium import Chromium
from tests.console.console_process import Browserless, console

TOPICS = 1_000


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        await admin.create_topics([NewTopic(f"orders-{number:04d}", 2, 1) for number in range(TOPICS)])
        for number in range(100):
            await producer.enqueue(
                "orders-0000", f'{{"number": {number}}}', key=f"key-{number}", headers={"from": "tests"}
            )
        await producer.flush()
        reading = {**settings, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        async with Consumer(reading) as consumer:
            consumer.subscribe(["orders-0000"])
            seen = 0
            while seen < 40:
                seen += len(await consumer.poll(10, max_records=40 - seen))
            await consumer.commit()


@pytest.fixture(scope="module")
def filled() -> Iterator[Broker]:
    """A broker with TOPICS topics, 100 records in `orders-0000`, and a group that has read 40 of them."""
    with Broker({"offsets.topic.num.partitions": 4}) as broker:
        asyncio.run(_fill(broker.bootstrap))
        yield broker


@pytest.fixture(scope="module")
def address(filled: Broker) -> Iterator[str]:
    """The address of a console for that broker."""
    with console(filled.bootstrap) as where:
        yield where


@pytest.fixture
def person(address: str) -> Browserless:
    """A new person without a browser."""
    return Browserless(address)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium."""
    with Chromium() as chromium:
        yield chromium
