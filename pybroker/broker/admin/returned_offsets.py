"""Groups get the offsets back that they had committed for a topic that lives again, or whose successor goes on with
them. Each broker gives theirs to the groups that it coordinates; the controller counts until all have them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from pybroker.broker.cluster.events import OffsetsRestored
from pybroker.broker.cluster.port import ControllerPort
from pybroker.broker.cluster.view import ClusterView
from pybroker.broker.metadata.deletion_records import UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import TopicImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Between two attempts to give groups their offsets back."""
SILENT = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""Another broker gives them theirs, unless it dies and this one takes over; or it is a matter of a moment."""

GiveBack = Callable[[Uuid, str, Sequence[Mapping[str, Any]]], Mapping[str, Awaitable[ErrorCode]]]
"""Writes the offsets of a deletion record back for an incarnation and its name. The groups see them when it returns; by
group, its code when they are stored."""


class _Debt(msgspec.Struct, frozen=True):
    """What groups are owed by one deletion: a topic may be undeleted while its successor still gets them, and be
    deleted and undeleted again while somebody waits for the others."""

    topic_id: Uuid
    deleted_ms: int
    target: Uuid
    """Whose offsets they become."""

    @classmethod
    def of(cls, record: DeletionRecord) -> _Debt | None:
        """None: nothing is owed."""
        return None if record.offsets_for is None else cls(record.topic_id, record.deleted_ms, record.offsets_for)


class ReturnedOffsets:
    """Takes what deletion records keep to the groups, and tells the controller when it is stored there."""

    def __init__(
        self, view: ClusterView, port: ControllerPort, give_back: GiveBack, loaded: Callable[[], Awaitable[None]]
    ) -> None:
        """`loaded` returns when no group is being loaded."""
        self._view = view
        self._port = port
        self._give_back = give_back
        self._loaded = loaded
        self._restoring: dict[_Debt, asyncio.Task[None]] = {}
        self._started = False

    @property
    def pending(self) -> bool:
        """Whether groups still have to get offsets back, or will have when a topic lives that is being undeleted."""
        return any(
            record.offsets_for is not None or (record.state == UNDELETING and record.offsets)
            for record in self._view.image.deletions.values()
        )

    def start(self) -> None:
        """Called before clients are served, once the groups are loaded: finishes what was under way when the broker
        stopped.
        """
        self._started = True
        due = [record for record in self._view.image.deletions.values() if record.offsets_for is not None]
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
        for record in self._view.image.deletions.values():
            debt = _Debt.of(record)
            if debt is None or debt.target not in shown or debt in self._restoring:
                continue
            topic = self._view.image.topic_by_id(debt.target)
            if topic is not None:
                work = self._until_given(debt, topic, self._attempt(record, topic))
                self._restoring[debt] = task = asyncio.create_task(work, name="returned-offsets")
                task.add_done_callback(_report)

    def _attempt(self, record: DeletionRecord, topic: TopicImage) -> Mapping[str, Awaitable[ErrorCode]]:
        given = frozenset(record.offsets_given)
        return self._give_back(
            topic.topic_id, topic.name, [one for one in record.offsets if one["group"] not in given]
        )

    async def _until_given(
        self, debt: _Debt, topic: TopicImage, attempt: Mapping[str, Awaitable[ErrorCode]]
    ) -> None:
        loading = False
        try:
            while True:
                codes = {group: await code for group, code in attempt.items()}
                stored = tuple(group for group, code in codes.items() if code is ErrorCode.NONE)
                told = not stored or await self._told(debt, topic.name, stored)
                if told and len(stored) == len(codes):
                    return
                loud = next((code for code in codes.values() if code not in (ErrorCode.NONE, *SILENT)), None)
                if loud is not None:
                    log.warning("offsets for topic %s are not stored yet: %s", topic.name, loud.name)
                # At once, before a group that has just been loaded is asked for its offsets.
                loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes.values() and not loading
                await (self._loaded() if loading else asyncio.sleep(RETRY_S))
                record = self._view.image.deletions.get(debt.topic_id)
                if record is None or _Debt.of(record) != debt:
                    return
                attempt = self._attempt(record, topic)
        finally:
            self._restoring.pop(debt, None)

    async def _told(self, debt: _Debt, name: str, groups: tuple[str, ...]) -> bool:
        try:
            await self._port.submit(OffsetsRestored(debt.topic_id, debt.target, groups))
        except KafkaError as error:
            log.warning("that groups have their offsets of topic %s again is told once more: %s", name, error)
            return False
        return True


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("giving offsets back failed: this is a bug in pybroker", exc_info=task.exception())
