"""Removal of ended ingests' staged files, with retries after disk errors.

The decision to end an ingest is durable before its files are removed, so leftover files only use disk space. The broker
retries the removal while it runs and at each start (`NativeIngests.collect`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from pybroker.broker.clock import Clock
from pybroker.broker.metadata.ingest_records import IngestRecord
from pybroker.errors import KafkaError
from pybroker.native import Uuid

log = logging.getLogger(__name__)

RETRY_MS = 30_000
LEFT_MAX = 1_000
"""Limit of ingests with pending retries; the next start removes the files of further ingests. Retrying this many takes
seconds."""


class Removal:
    """Pending removals of one broker."""

    def __init__(
        self, drop: Callable[[IngestRecord], Awaitable[None]], topic: Callable[[IngestRecord], str], clock: Clock
    ) -> None:
        """`drop` removes the files or raises KafkaError. `topic` returns a topic's name for log lines."""
        self._drop = drop
        self._topic = topic
        self._clock = clock
        self._left: dict[tuple[Uuid, str], IngestRecord] = {}
        """The key is topic id and directory, because each epoch of an ingest has its own directory."""
        self._due_ms = 0

    async def remove(self, record: IngestRecord) -> None:
        """Remove the staged files of an ended ingest, now or later. Errors are only logged."""
        try:
            await self._drop(record)
        except KafkaError as error:
            if not self._left:
                self._due_ms = self._clock.monotonic_ms() + RETRY_MS
            kept = len(self._left) < LEFT_MAX
            if kept:
                self._left[record.topic_id, record.directory] = record
            log.warning(
                "cannot remove the staged files of an ingest ingest=%r topic=%s (%s): %s",
                record.ingest_id,
                self._topic(record),
                "retrying" if kept else "the next start removes them",
                error,
            )

    async def retry(self) -> None:
        """Retry failed removals if the retry interval has elapsed."""
        if not self._left or self._clock.monotonic_ms() < self._due_ms:
            return
        problem = None
        for place, record in list(self._left.items()):
            try:
                await self._drop(record)
            except KafkaError as error:
                problem = error
            else:
                del self._left[place]
                log.info(
                    "removed the staged files of an ingest after a retry ingest=%r topic=%s",
                    record.ingest_id,
                    self._topic(record),
                )
        self._due_ms = self._clock.monotonic_ms() + RETRY_MS
        if problem is not None:
            log.warning(
                "cannot remove the staged files of ended ingests, retrying ingests=%d: %s", len(self._left), problem
            )
