"""Dead letter queues of share groups (KIP-1191).

When a group rejects a record, or has received it too often, the leader of the record's partition writes a dead letter
to the topic `errors.deadletterqueue.topic.name`. Its headers give the record's position and the reason. With
`errors.deadletterqueue.copy.record.enable` it also contains the record's key, value and headers. After five failed
attempts the broker logs the offsets. In this case the records are only in their own topic, in state ARCHIVED.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.shards.interfaces import Reads, Topics
from pybroker.broker.coordinators.share_partition.in_flight import Failure
from pybroker.broker.coordinators.share_partition.share_statistics import ShareStatistics
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.errors import KafkaError
from pybroker.native import ClientBatch, NativeError, StoredRecord, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)
T = TypeVar("T")

ATTEMPTS_MAX = 5
BACKOFF_S, BACKOFF_S_MAX = 1.0, 30.0
"""Seconds before the second attempt, and longest delay. Each delay is twice the previous delay."""

BATCH_BYTES_MAX = 256 * 1024
READ_BYTES_MAX = 1024 * 1024
"""Bytes per read when copying records."""

FINAL = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.POLICY_VIOLATION,
    }
)
"""Errors after which the broker does not retry."""


class FailedRecords(NamedTuple):
    """Consecutive records with the same failure."""

    first: int
    last: int
    deliveries: int
    failure: Failure | None
    """Why the records failed; None if they failed under an earlier leader."""


class Queues(Protocol):
    """The topics that serve as queues (`pybroker.broker.admin.automatic_topics`)."""

    def config(self, topic_id: Uuid) -> Mapping[str, str]:
        """Return all settings of a topic."""
        ...

    def accepts(self, topic_id: Uuid) -> bool:
        """Return errors.deadletterqueue.group.enable of a topic."""
        ...

    async def create(self, topic: str) -> None:
        """Create a topic for dead letters. Raise KafkaError."""
        ...


class Leaders(Protocol):
    """The leaders of queue partitions (`dead_letter_appends`)."""

    async def append(self, broker_id: int, topic_id: Uuid, partition: int, batch: bytes) -> None:
        """Append a batch; return once it is committed. Raise KafkaError."""
        ...


class DeadLetterSettings(Protocol):
    """The settings of groups (`coordinators.share.settings`)."""

    def dead_letter_queue(self, group_id: str) -> str:
        """errors.deadletterqueue.topic.name; empty: the group has no queue."""
        ...

    def copies_dead_letters(self, group_id: str) -> bool:
        """errors.deadletterqueue.copy.record.enable"""
        ...

    @property
    def dead_letter_prefix(self) -> str:
        """errors.deadletterqueue.topic.name.prefix"""
        ...

    @property
    def creates_dead_letter_queues(self) -> bool:
        """errors.deadletterqueue.auto.create.topics.enable"""
        ...


class DeadLetterDependencies(NamedTuple):
    clock: Clock
    loop: asyncio.AbstractEventLoop
    topics: Topics
    reads: Reads
    queues: Queues
    leaders: Leaders
    settings: DeadLetterSettings
    enabled: Callable[[], bool]
    """Whether the feature share.version is at level 2 or higher."""


class DeadLetterTarget(NamedTuple):
    """The destination of a record's dead letter."""

    leader: int
    topic_id: Uuid
    partition: int


class DeadLetterQueues:
    """The dead letter queues of this broker's share partitions."""

    def __init__(self, dependencies: DeadLetterDependencies, statistics: ShareStatistics) -> None:
        self._dependencies = dependencies
        self._statistics = statistics

    def has_queue(self, group_id: str) -> bool:
        """Return whether failed records of this group currently go to a queue."""
        return self._dependencies.enabled() and bool(self._dependencies.settings.dead_letter_queue(group_id))

    async def write(self, key: Key, failed: Sequence[FailedRecords]) -> None:
        """Write dead letters. Return when they are in the queue, or after the last failed attempt."""
        for run in failed:
            written = run.first
            try:
                async for last, records in self._records(key, run):
                    await self._write(key, run, written, last, records)
                    self._statistics.dead_letters += last - written + 1
                    written = last + 1
            except (KafkaError, NativeError) as problem:
                log.warning(
                    "group %s: archived offsets %d to %d of %s-%d without a copy in its dead letter queue %s: %s",
                    key.group,
                    written,
                    run.last,
                    self._dependencies.topics.topic_name(key.topic_id) or key.topic_id,
                    key.partition,
                    self._dependencies.settings.dead_letter_queue(key.group) or "(no longer configured)",
                    problem,
                )

    async def _records(self, key: Key, run: FailedRecords) -> AsyncIterator[tuple[int, Mapping[int, StoredRecord]]]:
        """Yield (last offset, records by offset) for each read, until all offsets are covered. Deleted records are
        missing."""
        dependencies = self._dependencies
        if not dependencies.settings.copies_dead_letters(key.group):
            yield run.last, {}
            return
        at = run.first
        while at <= run.last:
            read = await dependencies.loop.run_in_executor(
                None, dependencies.reads.read_records, key.topic_id, key.partition, at, READ_BYTES_MAX
            )
            if read.next_offset <= at:
                break
            last = min(read.next_offset - 1, run.last)
            yield last, {each.offset: each for each in read.records if at <= each.offset <= last}
            at = last + 1
        if at <= run.last:
            yield run.last, {}

    async def _write(
        self, key: Key, run: FailedRecords, first: int, last: int, records: Mapping[int, StoredRecord]
    ) -> None:
        bytes_max = await self._try(key, self._bytes_max)
        for batch, of in _batches(self._letters(key, run, range(first, last + 1), records), bytes_max):
            try:
                await self._try(key, partial(self._append, batch))
            except KafkaError as problem:
                if problem.code != ErrorCode.MESSAGE_TOO_LARGE or not records:
                    raise
                # With the copied record, the dead letter exceeds the topic's limit. Write the letter without the copy.
                for bare, _ in _batches(self._letters(key, run, of, {}), bytes_max):
                    await self._try(key, partial(self._append, bare))

    async def _bytes_max(self, place: DeadLetterTarget) -> int:
        return min(BATCH_BYTES_MAX, int(self._dependencies.queues.config(place.topic_id)["max.message.bytes"]))

    async def _append(self, batch: bytes, place: DeadLetterTarget) -> None:
        self._statistics.dead_letter_requests += 1
        try:
            await self._dependencies.leaders.append(*place, batch)
        except KafkaError:
            self._statistics.dead_letter_requests_failed += 1
            raise

    def _letters(
        self, key: Key, run: FailedRecords, offsets: Sequence[int], records: Mapping[int, StoredRecord]
    ) -> Iterator[Letter]:
        topic = self._dependencies.topics.topic_name(key.topic_id) or "<UNKNOWN>"
        timestamp_ms = self._dependencies.clock.wall_ms()
        for offset in offsets:
            record = records.get(offset)
            headers: list[tuple[str, bytes | None]] = list(record.headers) if record is not None else []
            headers += [
                ("__dlq.errors.topic", topic.encode()),
                ("__dlq.errors.partition", b"%d" % key.partition),
                ("__dlq.errors.offset", b"%d" % offset),
                ("__dlq.errors.group", key.group.encode()),
                ("__dlq.errors.delivery.count", b"%d" % run.deliveries),
            ]
            if run.failure is not None:
                headers.append(("__dlq.errors.message", run.failure.value.encode()))
            key_, value = (None, None) if record is None else (record.key, record.value)
            yield Letter(offset, timestamp_ms, key_, value, headers)

    async def _try(self, key: Key, what: Callable[[DeadLetterTarget], Awaitable[T]]) -> T:
        """Call `what` with the current destination, and retry. Raise KafkaError after the last attempt."""
        pause = BACKOFF_S
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await what(await self._place(key))
            except KafkaError as problem:
                if attempt == ATTEMPTS_MAX or problem.code in FINAL:
                    raise
                log.info("group %s: retrying to write a dead letter in %.0f s: %s", key.group, pause, problem)
            await asyncio.sleep(pause)
            pause = min(pause * 2, BACKOFF_S_MAX)
        raise AssertionError("the last attempt returns or raises")

    async def _place(self, key: Key) -> DeadLetterTarget:
        """Return the current destination of dead letters for this partition. Raise KafkaError."""
        topics, settings, queues = self._dependencies.topics, self._dependencies.settings, self._dependencies.queues
        name = settings.dead_letter_queue(key.group)
        if not name:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "the group no longer has a dead letter queue")
        if not name.startswith(settings.dead_letter_prefix):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name} does not begin with errors.deadletterqueue.topic.name.prefix={settings.dead_letter_prefix}",
            )
        topic_id = topics.topic_id(name)
        if topic_id is None:
            if not settings.creates_dead_letter_queues:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"there is no topic {name}, and errors.deadletterqueue.auto.create.topics.enable is false",
                )
            await queues.create(name)
            topic_id = topics.topic_id(name)
            if topic_id is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} is being created")
        if not queues.accepts(topic_id):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"errors.deadletterqueue.group.enable of topic {name} is false")
        partition = key.partition % max(topics.partition_count(topic_id), 1)
        leader, _ = topics.leader(topic_id, partition)
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition} has no leader")
        return DeadLetterTarget(leader, topic_id, partition)


class Letter(NamedTuple):
    """A dead letter. `offset`: the offset of the failed record."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def _batches(letters: Iterator[Letter], bytes_max: int) -> Iterator[tuple[bytes, list[int]]]:
    """Yield finished batches, each with the offsets of its failed records. A letter larger than `bytes_max` gets its
    own batch.
    """
    batch, offsets = ClientBatch("none", bytes_max), list[int]()
    for letter in letters:
        if not batch.append(*letter[1:]):
            yield batch.build(), offsets
            batch, offsets = ClientBatch("none", bytes_max), []
            batch.append(*letter[1:])
        offsets.append(letter.offset)
    if offsets:
        yield batch.build(), offsets
