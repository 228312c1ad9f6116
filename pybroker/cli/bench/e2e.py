"""`pybroker bench e2e`: latency of records from their scheduled time to their arrival at a consumer.

The loop is open: records are scheduled at fixed times, even if earlier records have not arrived, and latency counts
from the scheduled time. If a broker stalls for a second, all records of this second count as late.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from typing import TYPE_CHECKING

import click

from pybroker.cli.bench.bench_options import BenchPlan, plan_options, producer_config, producer_options
from pybroker.cli.bench.latencies import Latencies, RunFigures
from pybroker.cli.options import run

if TYPE_CHECKING:
    from pybroker.cli.bench.bench_report import Bar
    from pybroker.client import Consumer, Producer

DUE = struct.Struct(">d")
"""Prefix of each value: its scheduled time."""
MARK_BYTES = 8
"""Length of the mark after the prefix. The mark lets a run distinguish its own records from those of other writers."""
POLL_S = 0.1
LAST_S_MAX = 60.0
"""Longest wait for the last record."""
OF = "scheduled send time → received by the consumer"


@click.command()
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=1000.0,
    show_default=True,
    metavar="N",
    help="Records per second.",
)
@producer_options
@plan_options(size=100)
def e2e(plan: BenchPlan, *, acks: str, compression: str, rate: float) -> None:
    """Report end-to-end latency.

    The command writes records at a fixed rate and reads them.

    The latency of a record starts at its scheduled send time, even if the record is sent late. Producer and consumer
    share one process, whose timers add up to one millisecond.
    """
    run(_e2e(plan, acks, compression, rate))


async def _e2e(plan: BenchPlan, acks: str, compression: str, rate: float) -> None:
    from pybroker.cli.bench.bench_report import bar, report
    from pybroker.cli.bench.bench_topic import topic_of
    from pybroker.client import Consumer, Producer

    latencies = Latencies()
    config = producer_config(plan, acks, compression, linger_ms=0)
    async with topic_of(plan) as topic, Consumer(plan.client()) as consumer, Producer(config) as producer:
        await producer.partitions_for(topic)
        await _at_the_end(consumer, topic)
        with bar(plan, "e2e") as shown:
            started_s = time.monotonic()
            through = _Through(consumer, latencies, shown)
            reading = asyncio.create_task(through.read())
            writing = asyncio.create_task(_write(plan, producer, topic, through.mark, rate))
            try:
                # The first failure of the writer or the reader ends the run.
                await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
                written = await writing if writing.done() else await reading
                through.wanted = written
                async with asyncio.timeout(LAST_S_MAX):
                    await reading
            except TimeoutError:
                missing = written - latencies.count
                raise click.ClickException(f"{missing:,} of {written:,} records did not arrive within 60 s.") from None
            finally:
                seconds = time.monotonic() - started_s
                for each in (reading, writing):
                    each.cancel()
                await asyncio.gather(reading, writing, return_exceptions=True)
    report(plan, "e2e", RunFigures(written, written * plan.size, seconds, latencies), OF)


async def _at_the_end(consumer: Consumer, topic: str) -> None:
    """Seek to the end, because existing records do not belong to this run."""
    from pybroker.client import TopicPartition

    partitions = [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
    consumer.assign(partitions)
    for each, end in (await consumer.end_offsets(partitions)).items():
        consumer.seek(each, end)


async def _write(plan: BenchPlan, producer: Producer, topic: str, mark: bytes, rate: float) -> int:
    """Write each record at its scheduled time, or immediately if that time has passed. Return their number."""
    rest = mark + os.urandom(plan.size - DUE.size - len(mark))
    written, started_s = 0, time.monotonic()
    while not plan.is_over(written, started_s):
        due_s = started_s + written / rate
        wait_s = due_s - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        await producer.enqueue(topic, DUE.pack(due_s) + rest)
        written += 1
    await producer.flush()
    return written


class _Through:
    """Receives the records of the run. `wanted`: the number of records to wait for; None until it is known."""

    def __init__(self, consumer: Consumer, latencies: Latencies, shown: Bar) -> None:
        self._consumer, self._latencies, self._shown = consumer, latencies, shown
        self.mark = os.urandom(MARK_BYTES)
        self.wanted: int | None = None

    async def read(self) -> int:
        """Read until all records have arrived and return their number."""
        place = slice(DUE.size, DUE.size + MARK_BYTES)
        while self.wanted is None or self._latencies.count < self.wanted:
            some = await self._consumer.poll(POLL_S)
            now = time.monotonic()
            for each in some:
                if each.value is not None and each.value[place] == self.mark:
                    self._latencies.add(now - DUE.unpack_from(each.value)[0])
            self._shown.show(self._latencies.count)
        return self._latencies.count
