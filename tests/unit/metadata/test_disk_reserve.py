"""The file that keeps space for the metadata store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pybroker.broker.metadata import disk_reserve
from pybroker.broker.metadata.disk_reserve import BYTES, PART_BYTES, DiskReserve
from pybroker.broker.metadata.metadata_store import StoreClosedError
from pybroker.broker.metadata.sqlite_store import EmbeddedStore


def test_it_is_released_in_parts_and_filled_again_after_a_pause(tmp_path: Path) -> None:
    now = 0.0
    reserve, file = DiskReserve(tmp_path, lambda: now), tmp_path / disk_reserve.FILE_NAME
    assert not reserve.release()
    reserve.fill()
    assert file.stat().st_size == BYTES
    assert [reserve.release() for _ in range(BYTES // PART_BYTES + 1)] == [True] * (BYTES // PART_BYTES) + [False]
    reserve.fill()
    assert file.stat().st_size == 0
    now = disk_reserve.PAUSE_S
    reserve.fill()
    assert file.stat().st_size == BYTES


def test_it_does_not_fill_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_reserve, "FREE_BYTES_MIN", 1 << 62)
    DiskReserve(tmp_path).fill()
    assert not (tmp_path / disk_reserve.FILE_NAME).exists()


async def test_a_store_that_stays_full_fails_when_the_reserve_is_used_up(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    try:
        await store._run(lambda: store._connection and store._connection.execute("PRAGMA max_page_count=12"))
        with pytest.raises(StoreClosedError, match="database or disk is full"):
            await store.create("/large", bytes(200_000))
        assert (tmp_path / disk_reserve.FILE_NAME).stat().st_size == 0
    finally:
        await store.close()
    with sqlite3.connect(tmp_path / "metadata.db") as connection:
        assert connection.execute("SELECT count(*) FROM node WHERE name = 'large'").fetchone() == (0,)
