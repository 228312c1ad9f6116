"""`python -m tests.console.screenshot FILE`: a PNG of the console's overview, with sample data. `make docs` writes the
picture in README.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from pybroker import Broker
from pybroker.client import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from pybroker.testing.child_processes import free_port
from tests.console.chromium import Chromium
from tests.console.console_process import console

WIDTH = 1240
TOPICS = {"clicks": 12, "orders": 6, "payments": 6, "shipments": 3}
"""Name → partitions."""
LAGS = {"billing": 12, "fraud-check": 340, "search-index": 2_150}
"""Group → unread records of `orders`."""
DELETED = ("orders-2023", "clicks-test")
RECORDS = 5_000


async def _fill(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with AdminClient(settings) as admin, Producer(settings) as producer:
        old = [NewTopic(name, 2, 1) for name in DELETED]
        await admin.create_topics([*(NewTopic(name, count, 1) for name, count in TOPICS.items()), *old])
        for number in range(RECORDS):
            await producer.enqueue("orders", f'{{"order": {number}}}', partition=number % TOPICS["orders"])
        await producer.flush()
        for group, lag in LAGS.items():
            read = {
                TopicPartition("orders", partition): len(range(partition, RECORDS - lag, TOPICS["orders"]))
                for partition in range(TOPICS["orders"])
            }
            await admin.alter_consumer_group_offsets(group, read)
        for name in DELETED:
            await admin.delete_topics([name])


async def _write_and_read(bootstrap: str, ended: threading.Event) -> None:
    settings = {"bootstrap.servers": bootstrap}
    async with Producer(settings) as producer, Consumer(settings) as consumer:
        consumer.assign([TopicPartition("clicks", partition) for partition in range(TOPICS["clicks"])])
        consumer.seek_to_beginning()
        while not ended.is_set():
            for _ in range(30):
                await producer.enqueue("clicks", b"x" * 300)
            await consumer.poll(0.02)


@contextlib.contextmanager
def traffic(bootstrap: str) -> Iterator[None]:
    """Write and read records in the block, as no throughput may be 0."""
    ended = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_write_and_read(bootstrap, ended)))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def take(path: Path) -> None:
    """Write the picture. It ends above the list of brokers, which shows paths of this machine."""
    metrics = f"127.0.0.1:{free_port()}"
    with (
        Broker({"offsets.topic.num.partitions": 1, "metrics.listener": metrics}) as broker,
        Chromium("--hide-scrollbars") as browser,
    ):
        asyncio.run(_fill(broker.bootstrap))
        with (
            traffic(broker.bootstrap),
            console(broker.bootstrap, f"--metrics-url=http://{metrics}/metrics") as address,
            browser.width(WIDTH),
        ):
            browser.until(lambda: _is_complete(browser, address), "figures, lag and deletions")
            brokers = "[...document.querySelectorAll('h2')].find(e => e.innerText === 'Brokers')"
            height = browser.script(f"return Math.floor({brokers}.getBoundingClientRect().top)")
            browser.screenshot(path, WIDTH, height)


def _is_complete(browser: Chromium, address: str) -> bool:
    browser.open(address + "/")
    rows = len(browser.all("#lags tbody tr")), len(browser.all("#latest button"))
    throughput = [each.text for each in browser.all(".tiles a[href='/live']")]
    return rows == (len(LAGS), len(DELETED)) and all(text[:1] in set("123456789") for text in throughput)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
