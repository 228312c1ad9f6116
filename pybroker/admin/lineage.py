"""What operators may do about the lives of topics: undelete, truncate, look at history and at deletions in progress.
Knows no protocol version.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from pybroker.admin.topic_log import log_truncated
from pybroker.admin.topic_names import check_new_name
from pybroker.clock import Clock
from pybroker.cluster.events import (
    OffsetsRestored,
    TruncatedTopic,
    TruncateTopics,
    Truncation,
    UndeletedTopic,
    UndeleteTopic,
)
from pybroker.cluster.lookup import living_topic, unknown_id, unknown_topic
from pybroker.cluster.port import ControllerPort
from pybroker.cluster.view import ClusterView
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.metadata.deletion_records import DELETING, REMOVED, STAGED, UNDELETING, DeletionRecord
from pybroker.metadata.image import ClusterImage, TopicImage
from pybroker.metadata.lineage import CREATED, TRUNCATED, TopicEvent
from pybroker.native import NativeBroker, StagedDirectory, Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 5.0
"""Between two attempts to give groups their offsets back."""

RestoreOffsets = Callable[[Uuid, str, Sequence[Mapping[str, Any]]], Awaitable[ErrorCode]]
"""Writes the offsets of a deletion record back for an incarnation and its name. The groups see them when it returns;
they are stored when the result has come."""


class Restore(msgspec.Struct, frozen=True):
    """A topic to undelete."""

    topic_id: Uuid
    new_name: str | None


class Truncate(msgspec.Struct, frozen=True):
    """A topic to truncate, by name or by id."""

    which: str | Uuid
    keep_offsets: bool


class Incarnation(msgspec.Struct, frozen=True):
    """One incarnation, living or dead."""

    topic_id: Uuid
    name: str
    state: str
    """live, or the state of its deletion."""
    created_ms: int
    created_by: str | None
    """None: from before histories were kept."""
    created_how: str
    deleted_ms: int
    """-1: it lives."""
    deleted_by: str | None
    deleted_how: str | None
    successor: Uuid | None
    events: tuple[TopicEvent, ...]
    ends: tuple[tuple[int, int], ...]
    """Log start and log end by partition; -1: nobody could say."""


class PartitionDeletion(msgspec.Struct, frozen=True):
    """What one broker holds of one partition of a deleted topic."""

    partition: int
    broker_id: int
    state: str
    """deleting, staged, removing, undeleting or removed."""
    log_dir: str | None
    size_bytes: int
    remaining_ms: int


class Deletion(msgspec.Struct, frozen=True):
    """A deletion, and how far it has come."""

    record: DeletionRecord
    size_bytes: int
    remaining_ms: int
    partitions: tuple[PartitionDeletion, ...]


class Waiting:
    """What waits for removal on this broker; `replicas.staging.Staging` has it."""

    def __init__(self, remaining_ms: Callable[[Uuid], int | None], is_removing: Callable[[Uuid], bool]) -> None:
        self.remaining_ms = remaining_ms
        self.is_removing = is_removing


class LineageAdmin:
    """See the module."""

    def __init__(
        self,
        *,
        view: ClusterView,
        port: ControllerPort,
        config: BrokerConfig,
        clock: Clock,
        native: NativeBroker,
        broker_id: int,
        waiting: Waiting,
        restore_offsets: RestoreOffsets,
    ) -> None:
        self._view = view
        self._port = port
        self._config = config
        self._clock = clock
        self._native = native
        self._broker_id = broker_id
        self._waiting = waiting
        self._restore_offsets = restore_offsets
        self._restoring: dict[Uuid, asyncio.Task[None]] = {}
        self._started = False

    @property
    def image(self) -> ClusterImage:
        """The cluster now."""
        return self._view.image

    def topic(self, name: str | None, topic_id: Uuid) -> TopicImage | DeletionRecord | None:
        """The topic that a request means: by id the living topic, else the deletion of that id; by name the living
        topic. None if there is none.
        """
        if topic_id != Uuid.ZERO:
            return self.image.topic_by_id(topic_id) or self.image.deletions.get(topic_id)
        return None if name is None else self.image.topics.get(name)

    def unknown(self, topic_id: Uuid, told: Callable[[str], bool]) -> KafkaError:
        """The error for an id without a living topic; `told` says whether the client may learn a name."""
        return unknown_id(self.image, topic_id, told)

    @property
    def pending(self) -> bool:
        """Whether groups still have to get offsets back."""
        return any(record.offsets_for is not None for record in self.image.deletions.values())

    # --- offsets of topics that live again ----------------------------------------------------------------------------

    def start(self) -> None:
        """Called before clients are served, once the groups are loaded: finishes what was under way when the broker
        stopped.
        """
        self._started = True
        due = [record for record in self.image.deletions.values() if record.offsets_for is not None]
        self.topics_shown([record.offsets_for for record in due if record.offsets_for is not None])

    async def stop(self) -> None:
        """Ends the work under way; what is not stored goes on after the next start."""
        for task in self._restoring.values():
            task.cancel()
        await asyncio.gather(*self._restoring.values(), return_exceptions=True)

    def topics_shown(self, topics: Sequence[Uuid]) -> None:
        """When topics become visible: who lives again gets the offsets of its groups back in the same turn of
        the loop, so that no group can look in between."""
        if not self._started:
            return
        shown = frozenset(topics)
        for record in self.image.deletions.values():
            target = record.offsets_for
            if target in shown and target is not None and record.topic_id not in self._restoring:
                topic = self.image.topic_by_id(target)
                if topic is not None:
                    task = asyncio.create_task(self._give_back(record, topic, self._attempt(record, topic)))
                    self._restoring[record.topic_id] = task
                    task.add_done_callback(_report)

    def _attempt(self, record: DeletionRecord, topic: TopicImage) -> Awaitable[ErrorCode] | ErrorCode:
        try:
            return self._restore_offsets(topic.topic_id, topic.name, record.offsets)
        except KafkaError as error:
            return ErrorCode(error.code)

    async def _give_back(
        self, record: DeletionRecord, topic: TopicImage, attempt: Awaitable[ErrorCode] | ErrorCode
    ) -> None:
        try:
            while True:
                code = attempt if isinstance(attempt, ErrorCode) else await attempt
                if code is ErrorCode.NONE:
                    await self._port.submit(OffsetsRestored(record.topic_id))
                    return
                log.warning("offsets for topic %s are not stored yet: %s", topic.name, code.name)
                await asyncio.sleep(RETRY_S)
                if self.image.topic_by_id(topic.topic_id) is None:
                    return
                attempt = self._attempt(record, topic)
        except KafkaError as error:
            log.warning("offsets for topic %s are given back again after the next start: %s", topic.name, error)
        finally:
            self._restoring.pop(record.topic_id, None)

    # --- undelete -----------------------------------------------------------------------------------------------------

    async def undelete(
        self, topics: Sequence[Restore], undeleted_by: str, timeout_ms: int
    ) -> list[UndeletedTopic | KafkaError]:
        """One result for each, in order. Success means: the topic is in service under its id."""
        results = [self._undelete(one, undeleted_by, timeout_ms) for one in topics]
        return list(await asyncio.gather(*results))

    async def _undelete(self, one: Restore, undeleted_by: str, timeout_ms: int) -> UndeletedTopic | KafkaError:
        try:
            if one.new_name is not None:
                check_new_name(one.new_name)
            event = UndeleteTopic(one.topic_id, one.new_name, undeleted_by, self._clock.wall_ms())
            answer = await self._port.submit(event, timeout_ms)
        except KafkaError as error:
            return error
        if not answer.in_force:
            return KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The undeletion goes on; `pybroker topics deletions` shows how far it is."
            )
        if isinstance(answer.reply, UndeletedTopic):
            log.info("%r undeleted topic %s (id %s)", undeleted_by, answer.reply.name, answer.reply.topic_id)
        return answer.reply

    # --- truncate -----------------------------------------------------------------------------------------------------

    async def truncate(
        self, topics: Sequence[Truncate], truncated_by: str, timeout_ms: int
    ) -> list[TruncatedTopic | KafkaError]:
        """One result for each, in order. Success means: the new incarnation takes records."""
        if not self._config["delete.topic.enable"]:
            disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
            return [disabled] * len(topics)
        found: dict[int, TopicImage] = {}
        results: list[TruncatedTopic | KafkaError | None] = []
        for slot, one in enumerate(topics):
            try:
                topic = living_topic(self.image, one.which)
            except KafkaError as error:
                results.append(error)
                continue
            if any(topic.topic_id == other.topic_id for other in found.values()):
                results.append(KafkaError(ErrorCode.INVALID_REQUEST, "The request names this topic more than once."))
                continue
            found[slot] = topic
            results.append(None)
        if found:
            event = self._truncation(topics, found, truncated_by)
            answer = await self._port.submit(event, timeout_ms)
            done = [reply for reply in answer.reply if isinstance(reply, TruncatedTopic)]
            log_truncated(truncated_by, done, event.now_ms + event.delay_ms)
            late = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The topic is truncated, but not in service within the timeout."
            )
            for slot, reply in zip(found, answer.reply, strict=True):
                results[slot] = late if isinstance(reply, TruncatedTopic) and not answer.in_force else reply
        return [result for result in results if result is not None]

    def _truncation(
        self, topics: Sequence[Truncate], found: Mapping[int, TopicImage], truncated_by: str
    ) -> TruncateTopics:
        return TruncateTopics(
            tuple(Truncation(topic.topic_id, topics[slot].keep_offsets) for slot, topic in found.items()),
            truncated_by,
            self._clock.wall_ms(),
            self._config["delete.topic.delay.ms"],
        )

    # --- history ------------------------------------------------------------------------------------------------------

    def history(self, name: str | None, topic_id: Uuid) -> list[Incarnation]:
        """All incarnations of a name, or the one with an id, the latest first. KafkaError: nothing is known."""
        image = self.image
        if topic_id != Uuid.ZERO:
            which = self.topic(None, topic_id)
            if which is None:
                raise unknown_topic(image, topic_id)
            return [self._living(which) if isinstance(which, TopicImage) else _dead(which)]
        assert name is not None
        dead = [
            record for record in image.deletions.values() if record.topic == name and record.topic_id not in image.names
        ]
        dead.sort(key=lambda record: record.deleted_ms, reverse=True)
        live = image.topics.get(name)
        found = [*([] if live is None else [self._living(live)]), *(_dead(record) for record in dead)]
        if not found:
            raise unknown_topic(image, name)
        return found

    def _living(self, topic: TopicImage) -> Incarnation:
        made = _made(topic.lineage.events)
        ends = []
        for index in range(len(topic.partitions)):
            offsets = self._native.partitions.offsets(topic.topic_id, index)
            ends.append((-1, -1) if offsets is None else (offsets.log_start_offset, offsets.log_end_offset))
        return Incarnation(
            topic.topic_id,
            topic.name,
            "live",
            topic.created_ms,
            None if made is None else made.by,
            CREATED if made is None else made.what,
            -1,
            None,
            None,
            None,
            topic.lineage.events,
            tuple(ends),
        )

    # --- deletions ----------------------------------------------------------------------------------------------------

    async def deletions(self, wanted: Sequence[str | Uuid] | None) -> list[Deletion]:
        """Deletions whose data is not gone (None), or all that are meant, finished ones too. The latest first."""
        image = self.image
        if wanted is None:
            records = [record for record in image.deletions.values() if record.state in (DELETING, STAGED, UNDELETING)]
        else:
            asked = frozenset(wanted)
            records = [
                record
                for record in image.deletions.values()
                if (record.topic_id in asked or record.topic in asked) and record.topic_id not in image.names
            ]
        records.sort(key=lambda record: record.deleted_ms, reverse=True)
        if not records:
            return []
        on_disk = await asyncio.get_running_loop().run_in_executor(None, self._on_disk)
        return [self._deletion(record, on_disk) for record in records]

    def _on_disk(self) -> dict[tuple[Uuid, int], tuple[StagedDirectory, int]]:
        found = {}
        for directory in self._native.log_dirs.staged():
            if directory.topic_id is not None:
                found[directory.topic_id, directory.partition] = (directory, _size(directory.path))
        return found

    def _deletion(
        self, record: DeletionRecord, on_disk: Mapping[tuple[Uuid, int], tuple[StagedDirectory, int]]
    ) -> Deletion:
        remaining = self._waiting.remaining_ms(record.topic_id)
        partitions = []
        for index, replicas in record.partitions.items():
            for broker_id in replicas:
                if broker_id != self._broker_id:
                    partitions.append(PartitionDeletion(index, broker_id, record.state, None, -1, -1))
                    continue
                there = on_disk.get((record.topic_id, index))
                if there is None:
                    state = REMOVED if record.state == STAGED else record.state
                    partitions.append(PartitionDeletion(index, broker_id, state, None, 0, -1))
                    continue
                directory, size = there
                removing = directory.purging or self._waiting.is_removing(record.topic_id)
                state = "removing" if removing else record.state
                left = -1 if remaining is None else remaining
                partitions.append(PartitionDeletion(index, broker_id, state, directory.log_dir, size, left))
        size = sum(max(0, partition.size_bytes) for partition in partitions)
        return Deletion(record, size, -1 if remaining is None else remaining, tuple(partitions))


def _dead(record: DeletionRecord) -> Incarnation:
    made = _made(record.lineage.events)
    return Incarnation(
        record.topic_id,
        record.topic,
        record.state,
        record.created_ms,
        None if made is None else made.by,
        CREATED if made is None else made.what,
        record.deleted_ms,
        record.deleted_by,
        record.how,
        record.successor,
        record.lineage.events,
        tuple(record.end(index) for index in range(len(record.partitions))),
    )


def _made(events: Sequence[TopicEvent]) -> TopicEvent | None:
    """How an incarnation came to be; None if that was before histories were kept."""
    first = events[0] if events else None
    if first is None or first.what not in (CREATED, TRUNCATED):
        return None
    return first


def _size(path: str) -> int:
    """Bytes of the files in a directory; what goes away meanwhile counts nothing."""
    try:
        with os.scandir(path) as entries:
            return sum(_bytes(entry) for entry in entries)
    except OSError:
        return 0


def _bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("giving offsets back failed: this is a bug in pybroker", exc_info=task.exception())
