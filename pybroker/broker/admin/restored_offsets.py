"""Committed offsets of groups survive the deletion of a topic, because the topic's deletion record contains them.

If a broker responds to the write fence too late, the record lacks this broker's offsets; `LateOffsets` adds them. After
an undelete, `RestoredOffsets` restores the offsets to the topic; after a truncation, it restores them to the successor
that continues them. Each broker does both for the groups that it coordinates. The controller waits until all brokers
have confirmed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient, submit_until_accepted
from pybroker.broker.cluster.events import KeepOffsets, OffsetsRestored
from pybroker.broker.metadata.deletion_records import UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause between two attempts to restore offsets."""
SILENT = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""Errors that are not logged: another broker coordinates the group (if it fails, this broker may take over), the
coordinator is loading, or an open transaction has a later offset."""

GiveBack = Callable[[Uuid, str, Sequence[Mapping[str, Any]]], Mapping[str, Awaitable[ErrorCode]]]
"""Writes the offsets of a deletion record as offsets of this topic id and name. When the call returns, the groups see
them. Returns an awaitable per group, which gives an error code when the offsets are stored."""


class _Debt(msgspec.Struct, frozen=True):
    """Offsets to restore from one deletion. A topic id may have several such sets: its successor may still be getting
    offsets when the topic is undeleted, and the topic may be deleted and undeleted again before all groups have their
    offsets."""

    topic_id: Uuid
    deleted_ms: int
    target: Uuid
    """The topic id under which the groups get the offsets back."""

    @classmethod
    def of(cls, record: DeletionRecord) -> _Debt | None:
        """Return the offsets that the record has to restore; None if there are none."""
        return None if record.offsets_for is None else cls(record.topic_id, record.deleted_ms, record.offsets_for)


class LateOffsets:
    """Sends committed offsets of deleted topics to the controller if their deletion records lack them."""

    def __init__(self, view: ClusterView, controller: ControllerClient) -> None:
        self._view = view
        self._controller = controller
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(
        self, topic_id: Uuid, offsets: Sequence[Mapping[str, Any]], kept: Callable[[bool], object]
    ) -> Collection[tuple[str, int]]:
        """Start sending the offsets that the record lacks; the task retries until the controller has stored them, and
        then calls `kept` with the information whether the topic is live. Return their groups and partitions. Until then
        the offsets topic has the only copy: the coordinator keeps it, and after a crash the next coordinator of the
        groups sends it.
        """
        record = self._view.image.deletions.get(topic_id)
        late = () if record is None else record.lacking(offsets)
        if record is None or not late:
            return ()
        task = asyncio.create_task(self._send(record.topic, KeepOffsets(topic_id, late), kept), name="late-offsets")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return {(offset["group"], offset["partition"]) for offset in late}

    async def stop(self) -> None:
        """Wait briefly for offsets that are being sent."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=RETRY_S)
        for task in tuple(self._tasks):
            task.cancel()

    async def _send(self, name: str, event: KeepOffsets, kept: Callable[[bool], object]) -> None:
        def retrying(error: KafkaError) -> None:
            log.warning("retrying to keep committed offsets of a deleted topic topic=%s: %s", name, error)

        answer = await submit_until_accepted(self._controller, event, RETRY_S, retrying)
        kept(answer.reply)


class RestoredOffsets:
    """Restores offsets from deletion records to the groups, and reports to the controller when they are stored."""

    def __init__(
        self,
        view: ClusterView,
        controller: ControllerClient,
        give_back: GiveBack,
        loaded: Callable[[], Awaitable[None]],
        is_shown: Callable[[Uuid], bool],
    ) -> None:
        """`loaded`: waits until all groups are loaded. `is_shown`: returns whether clients see a topic id."""
        self._is_shown = is_shown
        self._view = view
        self._controller = controller
        self._give_back = give_back
        self._loaded = loaded
        self._restoring: dict[_Debt, asyncio.Task[None]] = {}
        self._started = False

    @property
    def pending(self) -> bool:
        """Return whether offsets have to be restored, either now or when a running undelete ends."""
        return any(
            record.offsets_for is not None or (record.state == UNDELETING and record.offsets)
            for record in self._view.image.deletions.values()
        )

    def start(self) -> None:
        """Resume restores that a stop interrupted. Called when the groups are loaded, before the broker serves
        clients."""
        self._started = True
        due = [record for record in self._view.image.deletions.values() if record.offsets_for is not None]
        self.topics_shown([record.offsets_for for record in due if record.offsets_for is not None])

    async def stop(self) -> None:
        """Stop restoring. The next start restores the rest."""
        for task in self._restoring.values():
            task.cancel()
        await asyncio.gather(*self._restoring.values(), return_exceptions=True)

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Restore offsets that were added to the deletion record after the topic had become visible."""
        del before, after
        records = change.deletions.values() if isinstance(change, ClusterImage) else change.deletions
        heirs = [record.offsets_for for record in records if record.offsets_for is not None]
        self.topics_shown([heir for heir in heirs if self._is_shown(heir)])

    def topics_shown(self, topics: Sequence[Uuid]) -> None:
        """Restore the offsets of topics that become visible. The offsets change in the same step of the event loop,
        before a group can read them."""
        if not self._started:
            return
        shown = frozenset(topics)
        for record in self._view.image.deletions.values():
            debt = _Debt.of(record)
            if debt is None or debt.target not in shown or debt in self._restoring:
                continue
            topic = self._view.image.topic_by_id(debt.target)
            if topic is not None:
                work = self._until_given(debt, topic, record, self._attempt(record, topic))
                self._restoring[debt] = task = asyncio.create_task(work, name="returned-offsets")
                task.add_done_callback(_report)

    def _attempt(self, record: DeletionRecord, topic: TopicImage) -> Mapping[str, Awaitable[ErrorCode]]:
        returned = frozenset(record.offsets_given)
        return self._give_back(
            topic.topic_id, topic.name, [offset for offset in record.offsets if offset["group"] not in returned]
        )

    async def _until_given(
        self,
        debt: _Debt,
        topic: TopicImage,
        record: DeletionRecord,
        attempt: Mapping[str, Awaitable[ErrorCode]],
    ) -> None:
        """Complete an attempt to restore the offsets of `record`. Retry until no group lacks offsets."""
        loading = False
        mark = record.offsets_mark
        try:
            while True:
                codes = {group: await code for group, code in attempt.items()}
                stored = tuple(group for group, code in codes.items() if code is ErrorCode.NONE)
                notified = not stored or await self._notify(debt, topic.name, stored, mark)
                if notified and len(stored) == len(codes):
                    now = self._owing(debt)
                    if now is None or now.offsets_mark == mark:
                        return
                loud = next((code for code in codes.values() if code not in (ErrorCode.NONE, *SILENT)), None)
                if loud is not None:
                    log.warning(
                        "cannot store the restored offsets of an undeleted topic yet, retrying topic=%s error=%s",
                        topic.name,
                        loud.name,
                    )
                # A group that has just been loaded must get its offsets before it serves requests, so retry at once.
                loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes.values() and not loading
                await (self._loaded() if loading else asyncio.sleep(RETRY_S))
                now = self._owing(debt)
                if now is None:
                    return
                attempt, mark = self._attempt(now, topic), now.offsets_mark
        finally:
            self._restoring.pop(debt, None)

    def _owing(self, debt: _Debt) -> DeletionRecord | None:
        """Return the deletion record if these offsets still have to be restored, else None."""
        record = self._view.image.deletions.get(debt.topic_id)
        return record if record is not None and _Debt.of(record) == debt else None

    async def _notify(self, debt: _Debt, name: str, groups: tuple[str, ...], mark: int) -> bool:
        try:
            await self._controller.submit(OffsetsRestored(debt.topic_id, debt.target, groups, mark))
        except KafkaError as error:
            log.warning(
                "retrying notification that offsets of an undeleted topic were restored topic=%s: %s", name, error
            )
            return False
        return True


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("restoring offsets failed: this is a bug in pybroker", exc_info=task.exception())
