"""Staged replicas: data of deleted topics in `deleting/`. It is removed after `delete.topic.delay.ms`, never earlier.

The delay begins when the data has been moved. The broker stores the deadline before it confirms the move, so the
controller knows of all staged data. It stores the beginning of the delay within a second (`NOTE_MS`). If the broker is
killed before that, the full delay begins at the next start; this also applies to a directory without a stored deadline.
The delay counts in monotonic time. It continues across restarts of the broker while the machine runs (same boot id), so
changing the wall clock has no effect. After a restart of the machine, wall time determines the rest, never more than
the whole delay.

In a cluster, the broker reads the store again when the delay ends: the topic may have been undeleted, or a replica of
it may be assigned to this broker again. Before the first removal, the controller closes the deletion, so that no
undelete can find only half of the data. Data of unknown topics has no deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import UNDELETING
from pybroker.broker.metadata.metadata_store import (
    StoreError,
    UnavailableError,
    UnknownOutcomeError,
)
from pybroker.broker.replicas.broker_registration import boot_id
from pybroker.broker.replicas.staged_marks import StagedMarks
from pybroker.broker.replicas.stray_evidence import Replica, TopicEvidence
from pybroker.broker.replicas.stray_reconciliation import Evidence
from pybroker.errors import KafkaError
from pybroker.native import NativeBroker, NativeError, StagedDirectory, Uuid
from pybroker.printable import time_text

log = logging.getLogger(__name__)

RETRY_MS = 60_000
"""Milliseconds before a failed removal is tried again (permissions, a busy disk)."""

NOTE_MS = 1_000
"""Milliseconds for which the beginning of a delay may stay unstored, so that one write can store several. Recreating a
topic must not wait for that write."""

UNKNOWN = "of unknown name"
"""The name in log lines if no deletion of the topic id is stored, because an operator has put the directory into
`deleting/`."""


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in a readable form: "0-2, 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


class Reports(Protocol):
    """The receiver of reports about staged data that waits for an operator (`replicas.stray_reports.StrayReports`)."""

    def report(self, topics: Iterable[tuple[Uuid, str]]) -> None:
        """Report staged topics with these names."""
        ...

    async def stop(self) -> None:
        """Stop reporting."""
        ...


class Staging:
    """Deadlines and removal. Everything except the native calls runs on the loop's thread."""

    def __init__(
        self,
        native: NativeBroker,
        marks: StagedMarks,
        clock: Clock,
        *,
        known: TopicEvidence,
        close: Callable[[Uuid], Awaitable[object]],
        found: Reports,
    ) -> None:
        """`close` submits CloseDeletions for a topic, so that it can no longer be undeleted; it may raise KafkaError.
        `found` receives the topics that wait for an operator."""
        self._close = close
        self._found = found
        self._native = native
        self._known = known
        self._marks = marks
        self._clock = clock
        self._due: dict[Uuid, int] = {}
        """Topic id → monotonic time of the removal."""
        self._nodes: dict[Uuid, znodes.StagedNode] = {}
        self._loaded: dict[Uuid, znodes.StagedNode] = {}
        """The deadlines of the broker's previous run."""
        self._moved: set[Uuid] = set()
        """Topics whose beginning of the delay is not stored yet."""
        self._note_at = 0
        """Monotonic time at which the beginning of these delays will be stored."""
        self._held: set[Uuid] = set()
        """Topics that are being undeleted. Their data must not be removed in this time."""
        self._removing: set[Uuid] = set()
        """Topics whose removal has begun and cannot be undone."""
        self._boot = boot_id()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._started = False

    @property
    def waiting(self) -> Mapping[Uuid, znodes.StagedNode]:
        """The topics that wait for removal."""
        return self._nodes

    def remaining_ms(self, topic_id: Uuid) -> int | None:
        """Return the time until the removal; None if this broker has no staged data of the topic, or if the
        removal waits for an operator.
        """
        node = self._nodes.get(topic_id)
        if node is None or node.endless:
            return None
        due = self._due.get(topic_id)
        return self._wait_ms(topic_id, node) if due is None else max(0, due - self._clock.monotonic_ms())

    def endless_name(self, topic_id: Uuid) -> str | None:
        """Return the name of a topic that waits for an operator; None for any other topic."""
        node = self._nodes.get(topic_id)
        return None if node is None or not node.endless else node.topic

    def unscheduled_name(self, topic_id: Uuid) -> str | None:
        """Return the name of a topic whose data is not going to be removed, because it waits for an operator or because
        an undelete holds it; None for any other."""
        node = self._nodes.get(topic_id)
        return node.topic if node is not None and (node.endless or topic_id in self._held) else None

    def is_removing(self, topic_id: Uuid) -> bool:
        """Return whether the removal has begun."""
        return topic_id in self._removing

    async def load(self) -> None:
        """Read the stored deadlines. Call this before data is staged."""
        self._nodes |= await self._marks.load()
        await self._count_on()
        self._loaded = dict(self._nodes)
        for topic_id in list(self._nodes):  # Other tasks may store a deadline during this await.
            record = await self._marks.deletion(topic_id)
            if record is not None and record.state == UNDELETING:
                self._held.add(topic_id)

    async def _count_on(self) -> None:
        """After a restart of the machine, compute the remaining time once from wall time, and continue with the new
        monotonic clock.
        """
        counted_on: dict[Uuid, znodes.StagedNode] = {}
        for topic_id, node in list(self._nodes.items()):
            if not node.endless and (not node.boot_id or node.boot_id != self._boot):
                counted = msgspec.structs.replace(
                    node, boot_id=self._boot, monotonic_ms=self._clock.monotonic_ms(), left_ms=self._left_ms(node)
                )
                self._nodes[topic_id] = counted_on[topic_id] = counted
        await self._marks.replace(counted_on)

    async def start(self, delay_ms: int) -> None:
        """Give every staged directory a deadline, and begin the removal. Call this after the first LeaderAndIsr."""
        on_disk = await self.take_over(delay_ms)
        for topic_id, node in self._loaded.items():
            # An order may have stored a new deadline, and may not have moved the topic's data yet.
            if topic_id not in on_disk and self._nodes.get(topic_id) is node:
                await self._forget(topic_id)
        self.staged(self._nodes)
        self._started = True
        self._task = asyncio.create_task(self._run(), name="staged-removal")
        self._task.add_done_callback(_ended)

    async def taken_over(self, delay_ms: int) -> None:
        """Ensure that all data in `deleting/` has a deadline. Call this before this broker reports that a topic has no
        data left: the broker may have been killed after it had moved data, but before it had stored the deadline."""
        if not self._started:
            await self.take_over(delay_ms)

    async def take_over(self, delay_ms: int) -> set[Uuid]:
        """Give a deadline to each topic with data in `deleting/` but without a stored deadline: the whole delay from
        now or, for unknown topics, no deadline. Return the topics of all data in `deleting/`."""
        directories = await asyncio.get_running_loop().run_in_executor(None, self._native.log_dirs.staged)
        found = {
            (directory.topic_id, directory.partition) for directory in directories if directory.topic_id is not None
        }
        on_disk = {topic_id for topic_id, _ in found}
        new = on_disk - self._nodes.keys()
        endless = await self._unknown(replica for replica in found if replica[0] in new)
        for topics, wait_ms in ((new - endless, delay_ms), (endless, None)):
            await self.promise(dict.fromkeys(topics, ""), wait_ms)
            self.say(logging.WARNING, "left over on disk", [replica for replica in found if replica[0] in topics])
            self.staged(topics)
        return on_disk

    async def _unknown(self, partitions: Iterable[tuple[Uuid, int]]) -> set[Uuid]:
        """If the view is complete, return the unknown topics. On a single broker, return none, because only an operator
        can have put such directories into `deleting/`.
        """
        if not self._known.complete:
            return set()
        evidence = await self._known.of(Replica(topic_id, partition, None) for topic_id, partition in partitions)
        return {replica.topic_id for replica, what in evidence.items() if what is Evidence.NOTHING}

    async def stop(self) -> None:
        """Stop the removal. It continues after the next start."""
        await self._found.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        try:
            await self._note_moves()
        except StoreError as problem:
            log.warning(
                "cannot store removal deadlines; after the next start staged replicas wait their whole delay again: %s",
                problem,
            )

    async def promise(self, topics: Mapping[Uuid, str], delay_ms: int | None) -> None:
        """Store the deadlines of topics whose data will be staged (None: no deadline). Nothing is removed before
        `staged` is called.

        If a topic already waits for its removal, it keeps the later deadline, so that each partition stays for its
        whole delay. The name is "" if directories are named by id; in this case the stored deletion contains the name.
        """
        nodes: dict[Uuid, znodes.StagedNode] = {}
        for topic_id, directory_name in topics.items():
            record = None if directory_name else await self._marks.deletion(topic_id)
            name = directory_name if record is None else record.topic
            known = self._nodes.get(topic_id)
            if delay_ms is None:
                nodes[topic_id] = znodes.StagedNode(name, self._clock.wall_ms(), -1)
            else:
                left_ms = delay_ms if known is None else max(delay_ms, self._left_ms(known))
                nodes[topic_id] = self._counted(name, left_ms, promised=True)
            self._held.discard(topic_id)
            self._moved.discard(topic_id)
            self._due.pop(topic_id, None)
        await self._marks.write(nodes, self._nodes)
        self._nodes |= nodes

    def staged(self, topics: Iterable[Uuid]) -> None:
        """Start the delays, because the data of these topics is now in `deleting/`."""
        topics = tuple(topics)
        self._found.report(
            (topic, self._nodes[topic].topic) for topic in topics if self.endless_name(topic) is not None
        )
        for topic_id in topics:
            node = self._nodes.get(topic_id)
            if node is None or node.endless or topic_id in self._held:
                continue
            if node.promised:
                # The delay begins after the move, which has ended between the call of `promise` and now.
                node = self._counted(node.topic, node.remove_after_ms - node.staged_ms, promised=False)
                self._nodes[topic_id] = node
                if not self._moved:
                    self._note_at = self._clock.monotonic_ms() + NOTE_MS
                self._moved.add(topic_id)
            self._due[topic_id] = self._clock.monotonic_ms() + self._wait_ms(topic_id, node)
        self._wake.set()

    def shortened(self, topics: Iterable[Uuid]) -> None:
        """Apply shortened delays from the records of these deletions."""
        for topic_id in topics:
            node, due = self._nodes.get(topic_id), self._due.get(topic_id)
            if node is not None and due is not None:
                self._due[topic_id] = min(due, self._clock.monotonic_ms() + self._wait_ms(topic_id, node))
        self._wake.set()

    def _counted(self, name: str, left_ms: int, *, promised: bool) -> znodes.StagedNode:
        """Return the mark with a delay that begins now."""
        now_ms = self._clock.wall_ms()
        return znodes.StagedNode(
            name, now_ms, now_ms + left_ms, self._boot, self._clock.monotonic_ms(), left_ms, promised
        )

    async def _note_moves(self) -> None:
        """Store the beginnings of delays that are not stored yet."""
        moved = {topic_id: self._nodes[topic_id] for topic_id in self._moved if topic_id in self._nodes}
        self._moved.clear()
        try:
            await self._marks.replace(moved)
        except StoreError:
            self._moved.update(moved)
            raise

    def hold(self, topic_id: Uuid) -> bool:
        """Suspend the removal of a topic that is being undeleted, until `promise` or `returned` is called. Return False
        if the removal has already begun.
        """
        if topic_id in self._removing:
            return False
        if topic_id in self._nodes:
            self._held.add(topic_id)
            self._due.pop(topic_id, None)
        return True

    async def returned(self, topics: Iterable[Uuid]) -> None:
        """Forget topics that are in service again, except those with partitions that are still staged."""
        back = [topic_id for topic_id in topics if topic_id in self._nodes]
        if not back:
            return
        directories = await asyncio.get_running_loop().run_in_executor(None, self._native.log_dirs.staged)
        on_disk = {found.topic_id for found in directories}
        for topic_id in back:
            self._held.discard(topic_id)
            if topic_id in on_disk:
                self.staged([topic_id])
            else:
                await self._forget(topic_id)

    def say(self, level: int, what: str, partitions: Iterable[tuple[Uuid, int]]) -> None:
        """Log a line for each topic: all its partitions, and when they will be removed. Call this after `promise`.

        The level is WARN if the data was staged without an order. If there was an order, the broker that received it
        has already logged the deletion.
        """
        if not log.isEnabledFor(level):
            return
        by_topic: dict[Uuid, list[int]] = {}
        for topic_id, partition in partitions:
            by_topic.setdefault(topic_id, []).append(partition)
        for topic_id, indexes in by_topic.items():
            node = self._nodes.get(topic_id)
            if node is None:
                continue
            if node.endless:
                log.log(
                    level,
                    "%s: topic %s (id %s), partitions %s: the cluster's metadata does not know this id; the "
                    "replicas are not served and stay in deleting/ until an operator removes them",
                    what,
                    node.topic or UNKNOWN,
                    topic_id,
                    ranges(indexes),
                )
                continue
            log.log(
                level,
                "%s: topic %s (id %s), partitions %s will be removed from disk after %s",
                what,
                node.topic or UNKNOWN,
                topic_id,
                ranges(indexes),
                time_text(node.remove_after_ms),
            )

    def _left_ms(self, node: znodes.StagedNode) -> int:
        if node.boot_id and node.boot_id == self._boot:
            return max(0, node.left_ms - (self._clock.monotonic_ms() - node.monotonic_ms))
        # Without this limit, the data would stay too long if the wall clock was set back.
        return max(0, min(node.remove_after_ms - self._clock.wall_ms(), node.remove_after_ms - node.staged_ms))

    def _wait_ms(self, topic_id: Uuid, node: znodes.StagedNode) -> int:
        """Return the milliseconds until the removal: the rest of the stored delay, or of the shorter delay in the
        deletion record.
        """
        left_ms, delay_max_ms = self._left_ms(node), self._known.delay_max_ms(topic_id)
        if delay_max_ms is None:
            return left_ms
        passed_ms = node.remove_after_ms - node.staged_ms - left_ms
        return min(left_ms, max(0, delay_max_ms - passed_ms))

    async def _forget(self, topic_id: Uuid) -> None:
        self._nodes.pop(topic_id, None)
        self._due.pop(topic_id, None)
        self._held.discard(topic_id)
        self._moved.discard(topic_id)
        await self._marks.forget(topic_id)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self._clock.monotonic_ms()
            due = [topic_id for topic_id, at in self._due.items() if at <= now]
            if due:
                # Remove purged topics first, because an operator waits for their space.
                due.sort(key=lambda topic_id: self._known.delay_max_ms(topic_id) != 0)
                await self._remove(due)
                continue
            if self._moved and self._note_at <= now:
                try:
                    await self._note_moves()
                except (UnavailableError, UnknownOutcomeError) as problem:
                    log.warning("cannot store when staged replicas were moved, retrying: %s", problem)
                    self._note_at = self._clock.monotonic_ms() + NOTE_MS
                continue
            times = [*self._due.values(), *([self._note_at] if self._moved else ())]
            wait_s = (min(times) - now) / 1000 if times else None
            try:
                # Do not use wait_for: in Python 3.11 it loses a cancellation that arrives together with the wake-up.
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _remove(self, due: list[Uuid]) -> None:
        by_topic: dict[Uuid, list[StagedDirectory]] = {}
        self._removing.update(due)
        try:
            directories = await asyncio.get_running_loop().run_in_executor(None, self._native.log_dirs.staged)
        except NativeError as problem:
            log.error("cannot list staged replicas, retrying: %s", problem)
            for topic_id in due:
                self._due[topic_id] = self._clock.monotonic_ms() + RETRY_MS
            self._removing.difference_update(due)
            return
        for directory in directories:
            if directory.topic_id is not None:
                by_topic.setdefault(directory.topic_id, []).append(directory)
        for topic_id in due:
            at = self._due.get(topic_id)
            if at is None or at > self._clock.monotonic_ms():
                # `promise` was called again in this round, so the data staged after it has its own deadline.
                continue
            await self._remove_topic(topic_id, at, by_topic.get(topic_id, []))

    async def _remove_topic(self, topic_id: Uuid, at: int, directories: list[StagedDirectory]) -> None:
        if self._known.complete and not await self._may_go(topic_id, directories):
            self._removing.discard(topic_id)
            return
        freed = 0
        try:
            for directory in directories:
                freed += await asyncio.get_running_loop().run_in_executor(
                    None, self._native.log_dirs.purge, directory.path
                )
        except NativeError as problem:
            log.error(
                "cannot remove the data of a deleted topic, retrying name=%s id=%s: %s",
                self._nodes[topic_id].topic or UNKNOWN,
                topic_id,
                problem,
            )
            if self._due.get(topic_id) == at:
                self._due[topic_id] = self._clock.monotonic_ms() + RETRY_MS
            return
        if self._due.get(topic_id) != at:
            # `promise` was called again while files were removed, so more data of the topic will be staged.
            return
        name = self._nodes[topic_id].topic or UNKNOWN
        log.info("removed %d bytes of deleted topic %s (id %s)", freed, name, topic_id)
        await self._forget(topic_id)
        self._removing.discard(topic_id)

    async def _may_go(self, topic_id: Uuid, directories: list[StagedDirectory]) -> bool:
        """Return whether the data can be removed, according to the current store. If it cannot, schedule the next
        check.
        """
        if self._known.doubtful():
            self._due[topic_id] = self._clock.monotonic_ms() + RETRY_MS
            return False
        try:
            evidence, closed = await self._known.in_store(topic_id, [directory.partition for directory in directories])
            if evidence is Evidence.DEAD and not closed:
                # When a broker has removed data, no undelete may begin.
                await self._close(topic_id)
                evidence, closed = await self._known.in_store(
                    topic_id, [directory.partition for directory in directories]
                )
        except (UnavailableError, UnknownOutcomeError, KafkaError) as problem:
            log.warning("cannot read whether a topic is still deleted, retrying id=%s: %s", topic_id, problem)
            self._due[topic_id] = self._clock.monotonic_ms() + NOTE_MS
            return False
        if evidence is Evidence.NOTHING:
            await self.promise({topic_id: self._nodes[topic_id].topic}, None)
            self.say(logging.WARNING, "kept", [(topic_id, directory.partition) for directory in directories])
            return False
        if closed:
            return True
        log.warning("staged replicas stay, because the deletion of their topic is not final id=%s", topic_id)
        self._due[topic_id] = self._clock.monotonic_ms() + RETRY_MS
        return False


def _ended(task: asyncio.Task[None]) -> None:
    # Log now, because the interpreter would log the error only when it collects the task. The data stays and is removed
    # after the next start.
    if not task.cancelled() and task.exception() is not None:
        log.error("data of deleted topics is no longer removed until the next start", exc_info=task.exception())
