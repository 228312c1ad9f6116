"""The topic that a run creates and removes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from pybroker.cli.topics.deleted_topics import no_topic

if TYPE_CHECKING:
    from pybroker.cli.bench.bench_options import BenchPlan

PREFIX = "pybroker-bench-"
DELETE_RECORDS_TO_THE_END = -1


@contextlib.asynccontextmanager
async def topic_of(plan: BenchPlan) -> AsyncIterator[str]:
    """Yield the topic's name. A created topic is removed however the block ends, its records at once instead of after
    `delete.topic.delay.ms`."""
    from pybroker.client import AdminClient, NewTopic, TopicPartition

    async with AdminClient(plan.target.client_config()) as admin:
        if plan.topic is not None:
            if plan.topic not in await admin.list_topics(list_internal=True):
                raise click.ClickException(await no_topic(admin, plan.topic))
            yield plan.topic
            return
        name = f"{PREFIX}{os.getpid()}-{os.urandom(3).hex()}"
        await admin.create_topics([NewTopic(name, plan.partitions, plan.replication_factor)])
        try:
            yield name
        finally:
            everything = {TopicPartition(name, each): DELETE_RECORDS_TO_THE_END for each in range(plan.partitions)}
            with contextlib.suppress(Exception):  # the topic is deleted as usual, only later
                await admin.delete_records(everything)
            await admin.delete_topics([name])
