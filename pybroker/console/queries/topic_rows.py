"""Queries for the pages of the topic list, and for one topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pybroker.client import (
    AdminClient,
    ErrorCode,
    KafkaError,
    TopicCollection,
    TopicDescription,
    TopicListing,
    TopicPartition,
    Uuid,
)
from pybroker.console.queries.fragments import PART_S, fragment
from pybroker.console.queries.partition_logs import both_ends, replicas_on_disk, with_leader
from pybroker.console.queries.visible_topics import TopicNames

PAGE = 50


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A row of the topic list. Numbers are None if not known."""

    name: str
    topic_id: Uuid
    internal: bool
    partitions: int | None = None
    replicas: int | None = None
    behind: int = 0
    offline: int = 0
    records: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TopicList:
    """A page of the topic list."""

    rows: tuple[TopicRow, ...]
    matching: int
    total: int | None = None
    page: int = 1
    notes: tuple[str, ...] = ()

    @property
    def pages(self) -> int:
        """The number of pages, at least one."""
        return max(-(-self.matching // PAGE), 1)


async def topic_list(admin: AdminClient, names: TopicNames, text: str, page: int, *, internal: bool) -> TopicList:
    """Return a page of the topics whose names contain `text`, ignoring case. Only topics on the page are described."""
    listed = await names.listings(admin, internal=internal)
    wanted = text.casefold()
    matching = [each for each in listed if wanted in each.name.casefold()] if wanted else listed
    begin = (page - 1) * PAGE
    rows, notes = await rows_of(admin, matching[begin : begin + PAGE])
    return TopicList(rows, len(matching), len(listed), page, notes)


async def rows_of(admin: AdminClient, listings: Sequence[TopicListing]) -> tuple[tuple[TopicRow, ...], tuple[str, ...]]:
    """Return the rows of listed topics."""
    described = await descriptions(admin, [each.name for each in listings])
    partitions = with_leader(described.values())
    ends, sizes = await asyncio.gather(
        fragment(both_ends(admin, partitions), PART_S), fragment(replicas_on_disk(admin, partitions), PART_S)
    )
    rows = [_row(listing, described.get(listing.name), ends.value or {}, sizes.value or {}) for listing in listings]
    notes = [f"Record counts: {ends.problem}"] if ends.problem else []
    notes += [f"Sizes: {sizes.problem}"] if sizes.problem else []
    return tuple(rows), tuple(notes)


def _row(
    listing: TopicListing,
    topic: TopicDescription | None,
    ends: Mapping[TopicPartition, tuple[int | None, int | None]],
    sizes: Mapping[tuple[TopicPartition, int], tuple[int, str]],
) -> TopicRow:
    if topic is None:
        return TopicRow(listing.name, listing.topic_id, listing.internal)
    records, used, is_counted, is_sized = 0, 0, True, True
    for each in topic.partitions:
        where = TopicPartition(topic.name, each.partition)
        first, last = ends.get(where, (None, None))
        if first is None or last is None:
            is_counted = False
        else:
            records += last - first
        size = None if each.leader is None else sizes.get((where, each.leader.id))
        if size is None:
            is_sized = False
        else:
            used += size[0]
    return TopicRow(
        topic.name,
        topic.topic_id,
        topic.internal,
        len(topic.partitions),
        max((len(each.replicas) for each in topic.partitions), default=0),
        sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        sum(each.leader is None for each in topic.partitions),
        records if is_counted else None,
        used if is_sized else None,
    )


async def descriptions(admin: AdminClient, names: Sequence[str]) -> dict[str, TopicDescription]:
    """Return the topics that exist and that the user may describe."""
    if not names:
        return {}
    futures = admin.describe_topics(names).topic_name_values() or {}
    answers = await asyncio.gather(*futures.values(), return_exceptions=True)
    found = {}
    for name, answer in zip(futures, answers, strict=True):
        if isinstance(answer, TopicDescription):
            found[name] = answer
        elif not isinstance(answer, KafkaError):
            assert isinstance(answer, BaseException)
            raise answer
    return found


async def topic_by_id(admin: AdminClient, topic_id: Uuid) -> TopicDescription | None:
    """Return the live topic with that id."""
    try:
        found = await admin.describe_topics(TopicCollection.of_topic_ids([topic_id])).all_topic_ids()
    except KafkaError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise
        return None
    return found[topic_id]


def parsed_id(text: str) -> Uuid | None:
    """Parse an id in any of its forms; None if it is invalid."""
    try:
        return Uuid.parse(text) or None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition. size: of the leader's replica; log_dirs: broker → directory."""

    partition: int
    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    first: int | None
    last: int | None
    size: int | None
    log_dirs: tuple[tuple[int, str], ...]

    @property
    def records(self) -> int | None:
        """Number of offsets between first and last."""
        return None if self.first is None or self.last is None else self.last - self.first


def partition_rows(
    topic: TopicDescription,
    ends: Mapping[TopicPartition, tuple[int | None, int | None]],
    disks: Mapping[tuple[TopicPartition, int], tuple[int, str]],
) -> list[PartitionRow]:
    """All partitions of a topic."""
    rows = []
    for each in topic.partitions:
        where = TopicPartition(topic.name, each.partition)
        first, last = ends.get(where, (None, None))
        leader = None if each.leader is None else each.leader.id
        size = disks.get((where, leader)) if leader is not None else None
        dirs = tuple((node.id, disks[where, node.id][1]) for node in each.replicas if (where, node.id) in disks)
        rows.append(
            PartitionRow(
                each.partition,
                leader,
                each.leader_epoch,
                tuple(node.id for node in each.replicas),
                tuple(node.id for node in each.isr),
                first,
                last,
                None if size is None else size[0],
                dirs,
            )
        )
    return rows
