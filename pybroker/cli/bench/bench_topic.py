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
    """Yield the topic's name. If the command has created the topic, the command removes it at the end of the block,
    even after an error. The records are removed immediately, not after `delete.topic.delay.ms`.
    """
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
            with contextlib.suppress(Exception):  # If this fails, the usual delay applies.
                await admin.delete_records(everything)
            await admin.delete_topics([name])
