"""`pybroker bench fetch`: throughput of one consumer. The records are written first."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import click

from pybroker.cli.bench.bench_options import BenchPlan, plan_options, producer_config, producer_options
from pybroker.cli.bench.latencies import Latencies, RunFigures
from pybroker.cli.options import run

if TYPE_CHECKING:
    from pybroker.cli.bench.bench_report import Bar

FILL_BYTES = 256 << 20
FILL_RECORDS_MAX = 1_000_000
POLL_S = 1.0
RECORDS_A_POLL = 10_000
OF = "one poll of up to 10,000 records"


@click.command()
@producer_options
@plan_options(size=100)
def fetch(plan: BenchPlan, *, acks: str, compression: str) -> None:
    """Read records repeatedly from the start and report the throughput.

    A new topic is filled with --records records, by default 256 MiB (at most one million records). With --topic the
    existing records are read.
    """
    run(_fetch(plan, acks, compression))


async def _fetch(plan: BenchPlan, acks: str, compression: str) -> None:
    from pybroker.cli.bench.bench_report import bar, report
    from pybroker.cli.bench.bench_topic import topic_of
    from pybroker.cli.bench.produce_bench import write
    from pybroker.client import Producer

    async with topic_of(plan) as topic:
        if plan.topic is None:
            amount = min(FILL_RECORDS_MAX, max(1, FILL_BYTES // plan.size), plan.records or FILL_RECORDS_MAX)
            filling = dataclasses.replace(plan, records=amount, seconds=None)
            with bar(filling, "filling") as shown:
                async with Producer(producer_config(plan, acks, compression)) as producer:
                    await write(filling, producer, topic, Latencies(), shown)
        with bar(plan, "fetch") as shown:
            measured = await _read(plan, topic, shown)
    report(plan, "fetch", measured, OF)


async def _read(plan: BenchPlan, topic: str, shown: Bar) -> RunFigures:
    """Read the records and time each poll."""
    from pybroker.client import Consumer, TopicPartition

    latencies, records, size = Latencies(), 0, 0
    async with Consumer(plan.client(auto_offset_reset="earliest")) as consumer:
        partitions = [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
        ends = await consumer.end_offsets(partitions)
        begins = await consumer.beginning_offsets(partitions)
        partitions = [each for each in partitions if begins[each] < ends[each]]
        if not partitions:
            raise click.ClickException(f"Topic {topic} has no records.")
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        started_s = time.monotonic()
        while not plan.is_over(records, started_s):
            asked_s = time.monotonic()
            room = RECORDS_A_POLL if plan.records is None else min(RECORDS_A_POLL, plan.records - records)
            some = await consumer.poll(POLL_S, max_records=room)
            if some:
                latencies.add(time.monotonic() - asked_s)
            records += len(some)
            size += sum(len(each.value) for each in some if each.value is not None)
            shown.show(records)
            for each in {TopicPartition(topic, record.partition) for record in some} if some else partitions:
                if await consumer.position(each) >= ends[each]:
                    consumer.seek_to_beginning(each)
        seconds = time.monotonic() - started_s
    return RunFigures(records, size, seconds, latencies)
