"""Partitions of topics, and offsets of their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pybroker.cli.topics.deleted_topics import no_topic

if TYPE_CHECKING:
    from pybroker.client import AdminClient, OffsetSpec, TopicPartition


async def partitions_of(admin: AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    """Return all partitions, in order. If a single topic is requested and does not exist, raise click.ClickException,
    which describes its deletion. Raises KafkaError for other failures.
    """
    from pybroker.client import ErrorCode, KafkaError, TopicPartition

    try:
        described = await admin.describe_topics(topics)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or len(topics) != 1:
            raise
        raise click.ClickException(await no_topic(admin, topics[0])) from None
    return sorted(TopicPartition(name, each.partition) for name in topics for each in described[name].partitions)


async def offsets(
    admin: AdminClient, partitions: Sequence[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    """Return the offsets. An offset is -1 if the time is after the last record."""
    if not partitions:
        return {}
    return {each: row.offset for each, row in (await admin.list_offsets(dict.fromkeys(partitions, spec))).items()}
