"""`pybroker bench produce`: throughput of one producer, at full speed or at a given rate."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import click

from pybroker.cli.bench.bench_options import BenchPlan, plan_options, producer_config, producer_options
from pybroker.cli.bench.latencies import Latencies, RunFigures
from pybroker.cli.options import run

if TYPE_CHECKING:
    from pybroker.cli.bench.bench_report import Bar
    from pybroker.client import Producer

CHUNK_BYTES = 64 << 10
CHUNK_MAX = 500
"""Number of records per timed acknowledgement. Timing each record would distort the measurement."""
OF = "sent → acknowledged"


@click.command()
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Records per second; default: no limit."
)
@producer_options
@plan_options(size=100)
def produce(plan: BenchPlan, *, acks: str, compression: str, rate: float | None) -> None:
    """Write records and report throughput and acknowledgement latency.

    Values are random bytes, so compression ratios differ from those of real data.
    """
    run(_produce(plan, acks, compression, rate))


async def _produce(plan: BenchPlan, acks: str, compression: str, rate: float | None) -> None:
    from pybroker.cli.bench.bench_report import bar, report
    from pybroker.cli.bench.bench_topic import topic_of
    from pybroker.client import Producer

    latencies = Latencies()
    async with topic_of(plan) as topic, Producer(producer_config(plan, acks, compression)) as producer:
        await producer.partitions_for(topic)
        with bar(plan, "produce") as shown:
            started_s = time.monotonic()
            records = await write(plan, producer, topic, latencies, shown, rate=rate)
            seconds = time.monotonic() - started_s
    report(plan, "produce", RunFigures(records, records * plan.size, seconds, latencies), OF)


async def write(
    plan: BenchPlan, producer: Producer, topic: str, latencies: Latencies, shown: Bar, *, rate: float | None = None
) -> int:
    """Write until the plan ends, then wait for the last acknowledgement. Return the number of records written. Raise
    the first failure.
    """
    value = os.urandom(plan.size)
    chunk = max(1, min(CHUNK_MAX, CHUNK_BYTES // plan.size))
    if rate is not None:
        chunk = max(1, min(chunk, int(rate / 100)))
    failures: list[Exception] = []
    done, started_s = 0, time.monotonic()
    while not failures and not plan.is_over(done, started_s):
        if rate is not None:
            await asyncio.sleep(max(0.0, started_s + done / rate - time.monotonic()))
        some = chunk if plan.records is None else min(chunk, plan.records - done)
        if some > 1:
            await producer.send_many(topic, [value] * (some - 1))
        await _timed(producer, topic, value, latencies, failures)
        done += some
        shown.show(done)
    await producer.flush()
    if failures:
        raise failures[0]
    return done


async def _timed(producer: Producer, topic: str, value: bytes, latencies: Latencies, failures: list[Exception]) -> None:
    given_s = time.monotonic()

    def delivered(_metadata: object, error: Exception | None) -> None:
        if error is None:
            latencies.add(time.monotonic() - given_s)
        else:
            failures.append(error)

    await producer.enqueue(topic, value, on_delivery=delivered)
