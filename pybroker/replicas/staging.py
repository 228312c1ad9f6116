"""Data of deleted topics on this broker: staged in `deleting/`, removed after `delete.topic.delay.ms`, never earlier
(G, X7, A9).

The deadline is stored before anything is moved, so a crash between the two finds it again; a directory without one
gets the full delay from now. At start it is turned into monotonic time: a wall clock that jumps while the broker runs
moves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import Iterable, Mapping

from pybroker.clock import Clock
from pybroker.metadata import znodes
from pybroker.metadata.store import Create, MetadataStore, NoNodeError, Operation, Set, ensure_path
from pybroker.native import NativeBroker, NativeError, StagedDirectory, Uuid

log = logging.getLogger(__name__)

RETRY_MS = 60_000
"""After a removal that failed (permissions, a busy disk)."""


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as a reader likes them: "0-2, 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


class Staging:
    """Deadlines and removal. Everything but the native calls runs on the loop's thread."""

    def __init__(self, native: NativeBroker, store: MetadataStore, clock: Clock, broker_id: int) -> None:
        self._native = native
        self._store = store
        self._clock = clock
        self._path = f"{znodes.STAGED}/{broker_id}"
        self._due: dict[Uuid, int] = {}
        """Monotonic time of removal."""
        self._nodes: dict[Uuid, znodes.StagedNode] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> Mapping[Uuid, znodes.StagedNode]:
        """What waits for its removal."""
        return self._nodes

    async def load(self) -> None:
        """Reads the stored deadlines; before anything is staged."""
        await ensure_path(self._store, self._path)
        for path, node in (await self._store.subtree(self._path)).items():
            name = path.rsplit("/", 1)[1]
            try:
                self._nodes[Uuid.parse(name)] = znodes.decode_staged(path, node.data)
            except (ValueError, znodes.DamagedNodeError) as problem:
                # Its data gets a new deadline by `start`, a full delay from now.
                log.error("a stored deadline is damaged and is made anew: %s", problem)
                await self._store.delete(path)

    async def start(self, delay_ms: int) -> None:
        """After the first LeaderAndIsr: every staged directory has a deadline from now on; the removal begins."""
        directories = await asyncio.get_running_loop().run_in_executor(None, self._native.staged_deletions)
        on_disk = {found.topic_id for found in directories if found.topic_id is not None}
        unknown = on_disk - self._nodes.keys()
        await self.promise(dict.fromkeys(unknown, ""), delay_ms)
        for topic_id in self._nodes.keys() - on_disk:
            await self._forget(topic_id)
        self.staged(self._nodes)
        self._task = asyncio.create_task(self._run(), name="staged-removal")
        self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """Ends the removal; what is left goes on after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def promise(self, topics: Mapping[Uuid, str], delay_ms: int) -> None:
        """Stores the deadlines of topics of which data is about to be staged; nothing is removed before `staged`.

        One that waits already keeps the later deadline: each partition stays its whole delay.
        """
        now_ms = self._clock.wall_ms()
        operations: list[Operation] = []
        nodes: dict[Uuid, znodes.StagedNode] = {}
        for topic_id, name in topics.items():
            node = znodes.StagedNode(name, now_ms, now_ms + delay_ms)
            known = self._nodes.get(topic_id)
            if known is None:
                operations.append(Create(f"{self._path}/{topic_id}", node.encode()))
            elif known.remove_after_ms < node.remove_after_ms:
                operations.append(Set(f"{self._path}/{topic_id}", node.encode()))
            else:
                continue
            nodes[topic_id] = node
            self._due.pop(topic_id, None)
        if operations:
            await self._store.multi(operations)
        self._nodes |= nodes

    def staged(self, topics: Iterable[Uuid]) -> None:
        """The data of these topics lies in `deleting/`: from now on their removal may come."""
        for topic_id in topics:
            node = self._nodes.get(topic_id)
            if node is not None:
                self._due[topic_id] = self._clock.monotonic_ms() + self._left_ms(node)
        self._wake.set()

    def warn(self, what: str, partitions: Iterable[tuple[str, Uuid, int]]) -> None:
        """The WARN line of group G: all partitions, and when they will be removed."""
        by_topic: dict[tuple[str, Uuid], list[int]] = {}
        for name, topic_id, partition in partitions:
            by_topic.setdefault((name, topic_id), []).append(partition)
        for (name, topic_id), indexes in by_topic.items():
            node = self._nodes.get(topic_id)
            if node is None:
                continue
            when = datetime.datetime.fromtimestamp(node.remove_after_ms / 1000, datetime.UTC)
            log.warning(
                "%s: topic %s (id %s), partitions %s will be removed from disk after %s",
                what,
                name,
                topic_id,
                ranges(indexes),
                when.isoformat(timespec="seconds"),
            )

    def _left_ms(self, node: znodes.StagedNode) -> int:
        return max(0, node.remove_after_ms - self._clock.wall_ms())

    async def _forget(self, topic_id: Uuid) -> None:
        self._nodes.pop(topic_id, None)
        self._due.pop(topic_id, None)
        with contextlib.suppress(NoNodeError):
            await self._store.delete(f"{self._path}/{topic_id}")

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self._clock.monotonic_ms()
            due = [topic_id for topic_id, at in self._due.items() if at <= now]
            if due:
                await self._remove(due)
                continue
            wait_s = (min(self._due.values()) - now) / 1000 if self._due else None
            try:
                await asyncio.wait_for(self._wake.wait(), wait_s)
            except TimeoutError:
                continue

    async def _remove(self, due: list[Uuid]) -> None:
        loop = asyncio.get_running_loop()
        by_topic: dict[Uuid, list[StagedDirectory]] = {}
        for directory in await loop.run_in_executor(None, self._native.staged_deletions):
            if directory.topic_id is not None:
                by_topic.setdefault(directory.topic_id, []).append(directory)
        for topic_id in due:
            freed = 0
            try:
                for directory in by_topic.get(topic_id, []):
                    freed += await loop.run_in_executor(None, self._native.purge, directory.path)
            except NativeError as problem:
                log.error("the data of deleted topic %s cannot be removed, trying again: %s", topic_id, problem)
                self._due[topic_id] = self._clock.monotonic_ms() + RETRY_MS
                continue
            log.info("removed %d bytes of deleted topic %s (%s)", freed, self._nodes[topic_id].topic, topic_id)
            await self._forget(topic_id)


def _ended(task: asyncio.Task[None]) -> None:
    # At once, not when the interpreter happens to collect the task. The data stays, and goes after the next start.
    if not task.cancelled() and task.exception() is not None:
        log.error("data of deleted topics is not removed any more until the next start", exc_info=task.exception())
