"""When a node writes a snapshot of the metadata log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.snapshots import image_from_records
from pybroker.broker.quorum import snapshot_cutter
from pybroker.broker.quorum.snapshot_cutter import SnapshotCutter, SnapshotLimits
from pybroker.native import NativeError

LONG_MS = 3_600_000
LIMITS = SnapshotLimits(100, LONG_MS)


class Node:
    """Writes snapshots as the native node does, when the test allows it."""

    def __init__(self, limits: SnapshotLimits = LIMITS) -> None:
        self.image = ClusterImage.initial(3)
        self.results: list[bool | Exception] = []
        self.written: list[tuple[int, int]] = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.wrote = asyncio.Condition()
        self.cutter = SnapshotCutter(lambda: self.image, self.write, limits)

    async def write(self, end_offset: int, timestamp_ms: int, pieces: Iterable[Sequence[bytes]]) -> bool:
        assert image_from_records(pieces).offset == end_offset
        await self.may_write.wait()
        result = self.results.pop(0) if self.results else True
        if isinstance(result, Exception):
            raise result
        if result:
            async with self.wrote:
                self.written.append((end_offset, timestamp_ms))
                self.wrote.notify_all()
        return result

    def commit(self, end_offset: int, size: int, appended_ms: int | None = None) -> None:
        self.image = msgspec.structs.replace(self.image, offset=end_offset)
        now = int(time.time() * 1000) if appended_ms is None else appended_ms
        self.cutter.committed(now, [bytes(size)] if size else [])

    async def until_written(self, *ends: int) -> None:
        async with self.wrote, asyncio.timeout(30):
            await self.wrote.wait_for(lambda: [end for end, _ in self.written] == list(ends))


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_snapshot_is_written_after_so_many_bytes() -> None:
    node = Node()
    node.commit(1, 99)
    await turns()
    assert node.written == []
    node.commit(2, 1, appended_ms=77)
    await node.until_written(2)
    assert node.written == [(2, 77)]
    node.commit(3, 99)
    node.commit(4, 0)
    await turns()
    assert len(node.written) == 1
    node.commit(5, 1)
    await node.until_written(2, 5)


async def test_records_during_the_writing_count_for_the_next_snapshot() -> None:
    node = Node()
    node.may_write.clear()
    node.commit(1, 100)
    await turns()
    node.commit(2, 60)
    node.commit(3, 60)
    node.may_write.set()
    await node.until_written(1, 3)


async def test_snapshot_is_written_when_its_first_record_is_old() -> None:
    node = Node()
    long_ago = int(time.time() * 1000) - LONG_MS - 1000
    node.commit(1, 0, appended_ms=long_ago)
    node.commit(2, 1, appended_ms=long_ago)
    await node.until_written(2)
    node.commit(3, 1)
    await turns()
    assert len(node.written) == 1


async def test_size_alone_counts_without_an_interval() -> None:
    node = Node(SnapshotLimits(100, 0))
    node.commit(1, 99, appended_ms=0)
    await turns()
    assert node.written == []


async def test_failed_snapshot_is_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(snapshot_cutter, "RETRY_S", 0.0)
    node = Node()
    node.results = [NativeError(56, "no space left"), False]
    node.commit(1, 100)
    await node.until_written(1)
    assert "no space left" in caplog.text


async def test_snapshot_from_the_leader_covers_all_records() -> None:
    node = Node()
    node.commit(1, 99)
    node.cutter.replaced(5)
    node.commit(2, 99)
    await turns()
    assert node.written == []


async def test_closed_cutter_writes_nothing() -> None:
    node = Node()
    node.may_write.clear()
    node.commit(1, 100)
    await turns()
    await node.cutter.close()
    node.may_write.set()
    node.commit(2, 100)
    await turns()
    assert node.written == []
