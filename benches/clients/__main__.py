"""`python -m benches.clients`: cost of a record in the Python clients of pybroker and confluent-kafka, with a pybroker
broker.

Each variant writes or reads the same records (100 bytes, no key, acks=all, idempotent, uncompressed, one partition).
The variants take turns; results are medians of the rounds. CPU is user and system time of all threads of this process.
Variants that wait for each record use fewer records.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import confluent_kafka

import pybroker
from pybroker.client import Consumer, NewTopic, Producer, TopicPartition, blocking
from pybroker.client.blocking import AdminClient

VALUE = b"x" * 100
LINGER_MS = 5


def write_rows(bootstrap: str, topic: str, count: int) -> None:
    """Write with `send_many`, 1,000 rows per call."""

    async def work() -> None:
        async with Producer({"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS}) as producer:
            rows = [VALUE] * 1000
            for _ in range(count // 1000):
                await producer.send_many(topic, rows)

    asyncio.run(work())


def write_each(bootstrap: str, topic: str, count: int) -> None:
    """Write with `enqueue`, one record per call."""

    async def work() -> None:
        async with Producer({"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS}) as producer:
            for _ in range(count):
                await producer.enqueue(topic, VALUE)

    asyncio.run(work())


def write_gathered(bootstrap: str, topic: str, count: int) -> None:
    """Write with `gather` over concurrent `send`s."""

    async def work() -> None:
        async with Producer({"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS}) as producer:
            await asyncio.gather(*(producer.send(topic, VALUE) for _ in range(count)))

    asyncio.run(work())


def write_awaited(bootstrap: str, topic: str, count: int) -> None:
    """Write with `await send`, one after the other, with the default `linger.ms`."""

    async def work() -> None:
        async with Producer({"bootstrap.servers": bootstrap}) as producer:
            for _ in range(count):
                await producer.send(topic, VALUE)

    asyncio.run(work())


def write_awaited_at_once(bootstrap: str, topic: str, count: int) -> None:
    """Write with `await send`, one after the other, with `linger.ms=0`."""

    async def work() -> None:
        async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
            for _ in range(count):
                await producer.send(topic, VALUE)

    asyncio.run(work())


def write_blocking(bootstrap: str, topic: str, count: int) -> None:
    """Write with `enqueue` without asyncio, one record per call."""
    with blocking.Producer({"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS}) as producer:
        for _ in range(count):
            producer.enqueue(topic, VALUE)


def write_blocking_awaited(bootstrap: str, topic: str, count: int) -> None:
    """Write with `send` without asyncio, one after the other."""
    with blocking.Producer({"bootstrap.servers": bootstrap}) as producer:
        for _ in range(count):
            producer.send(topic, VALUE)


def write_confluent(bootstrap: str, topic: str, count: int) -> None:
    """Write with `produce`, one record per call."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": LINGER_MS, "enable.idempotence": True}
    producer = confluent_kafka.Producer(settings)
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0, "the writes were not finished within a minute"


def read_polled(bootstrap: str, topic: str, count: int) -> None:
    """Read with `poll`, a list per call."""

    async def work() -> None:
        async with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = 0
            while seen < count:
                seen += len(await consumer.poll(10.0))

    asyncio.run(work())


def read_each(bootstrap: str, topic: str, count: int) -> None:
    """Read with `async for`, one record per iteration."""

    async def work() -> None:
        async with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == count:
                    break

    asyncio.run(work())


def read_confluent(bootstrap: str, topic: str, count: int) -> None:
    """Read with `consume`, 500 records per call."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    seen = 0
    while seen < count:
        seen += len(consumer.consume(500, 10.0))
    consumer.close()


Way = Callable[[str, str, int], None]
WAYS: dict[str, tuple[Way, float]] = {
    "write: pybroker send_many": (write_rows, 1),
    "write: pybroker enqueue": (write_each, 1),
    "write: pybroker.blocking enqueue": (write_blocking, 1),
    "write: confluent produce": (write_confluent, 1),
    "write: pybroker gather of sends": (write_gathered, 0.2),
    "write: pybroker await send": (write_awaited, 0.002),
    "write: pybroker await send, linger.ms=0": (write_awaited_at_once, 0.002),
    "write: pybroker.blocking send": (write_blocking_awaited, 0.002),
    "read: pybroker poll": (read_polled, 1),
    "read: pybroker async for": (read_each, 1),
    "read: confluent consume": (read_confluent, 1),
}
"""Name → the variant, and its share of the records."""


def main() -> None:
    """Run all variants and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benches.clients", description=__doc__)
    parser.add_argument("--records", type=int, default=500_000, help="records per round and way; a multiple of 1,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="measure only ways whose name contains this text")
    given = parser.parse_args()
    count = given.records // 1000 * 1000
    ways = {name: (way, max(1_000, int(count * share))) for name, (way, share) in WAYS.items() if given.only in name}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with pybroker.Broker() as broker, AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic("read", 1, 1)])
        write_rows(broker.bootstrap, "read", count)
        for turn in range(given.rounds):
            for number, (name, (way, share)) in enumerate(ways.items()):
                topic = "read"
                if name.startswith("write"):
                    topic = f"write-{turn}-{number}"
                    admin.create_topics([NewTopic(topic, 1, 1)])
                begin, cpu = time.perf_counter(), time.process_time()
                way(broker.bootstrap, topic, share)
                measured[name].append((time.perf_counter() - begin, time.process_time() - cpu))
    print(f"{count} records of {len(VALUE)} bytes, median of {given.rounds}\n")
    print("| way | records/s | CPU µs a record |\n|---|---|---|")
    for name, figures in measured.items():
        elapsed, cpu = (median(column) for column in zip(*figures, strict=True))
        share = ways[name][1]
        print(f"| {name} | {share / elapsed:,.0f} | {cpu / share * 1e6:.2f} |")


if __name__ == "__main__":
    main()
