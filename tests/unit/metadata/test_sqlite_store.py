"""Guarantees that only the embedded store has: one process, formats, durability, visible failures."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pybroker.broker.lifecycle.startup.store_opening import get_or_generate_cluster_id
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.metadata_store import SQLITE_FILE, Create, StoreClosedError
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.errors import FatalError, StartError
from pybroker.native import Uuid


async def test_a_second_broker_is_refused(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    with pytest.raises(StartError, match=f"in use by another broker .process {os.getpid()}"):
        await EmbeddedStore.open(tmp_path)
    await store.close()
    await (await EmbeddedStore.open(tmp_path)).close()


async def test_newer_and_foreign_files_are_refused_untouched(tmp_path: Path) -> None:
    await (await EmbeddedStore.open(tmp_path)).close()
    connection = sqlite3.connect(tmp_path / SQLITE_FILE)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StartError, match="format 99"):
        await EmbeddedStore.open(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    connection = sqlite3.connect(other / SQLITE_FILE)
    connection.execute("PRAGMA application_id=7")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = (other / SQLITE_FILE).read_bytes()
    with pytest.raises(StartError, match="not a pybroker"):
        await EmbeddedStore.open(other)
    assert (other / SQLITE_FILE).read_bytes() == before


@pytest.mark.parametrize("damage", ["garbage", "bit", "cut"])
async def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    store = await EmbeddedStore.open(tmp_path)
    await store.create("/a")
    await store.multi([Create(f"/a/{number}", b"x" * 200) for number in range(500)])
    await store.close()
    path = tmp_path / SQLITE_FILE
    content = bytearray(path.read_bytes())
    if damage == "garbage":
        content[:] = os.urandom(len(content))
    elif damage == "cut":
        del content[len(content) // 2 :]
    else:
        # Damage the header of every page in the middle of the file: this certainly hits a page of the tree.
        for page in range(4096, len(content) - 4096, 4096):
            content[page : page + 8] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(StartError, match=r"metadata\.db"):
        await EmbeddedStore.open(tmp_path)


@pytest.mark.checklist("R14")
async def test_a_failed_commit_stops_the_store(tmp_path: Path) -> None:
    failures: list[FatalError] = []
    store = await EmbeddedStore.open(tmp_path, failures.append)
    await store.create("/a")
    limit = store._connection
    assert limit is not None
    # A full disk, as SQLite sees it: no further page can be allocated.
    await store._run(lambda: limit.execute("PRAGMA max_page_count=1"))
    with pytest.raises(StoreClosedError):
        await store.multi([Create("/a/big", bytes(200_000))])
    assert len(failures) == 1
    with pytest.raises(StoreClosedError):
        await store.get("/a")
    await store.close()
    store = await EmbeddedStore.open(tmp_path)
    assert await store.children("/a") == []
    await store.close()


def _write_until_killed(directory: str, pipe: Any) -> None:
    async def run() -> None:
        store = await EmbeddedStore.open(Path(directory))
        await store.create("/n")
        number = 0
        while True:
            await store.multi([Create(f"/n/{number}-a"), Create(f"/n/{number}-b")])
            pipe.send(number)
            number += 1

    asyncio.run(run())


async def test_kill_keeps_what_was_acknowledged_and_halves_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_write_until_killed, args=(str(tmp_path), sender))
    process.start()
    sender.close()
    last = -1
    while last < 50:
        last = receiver.recv()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    try:
        while receiver.poll(0):
            last = receiver.recv()
    except EOFError:
        pass
    store = await EmbeddedStore.open(tmp_path)
    names = set(await store.children("/n"))
    assert {f"{number}-{half}" for number in range(last + 1) for half in "ab"} <= names
    assert {name.split("-")[0] for name in names if name.endswith("a")} == {
        name.split("-")[0] for name in names if name.endswith("b")
    }
    await store.close()


@pytest.mark.checklist(251, 253, 254, 269, *range(271, 276), 281, 294)
async def test_cluster_id_is_made_once(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    ids = await asyncio.gather(*(get_or_generate_cluster_id(store) for _ in range(20)))
    assert len(set(ids)) == 1
    assert str(Uuid.parse(ids[0])) == ids[0]
    assert (await store.get(znodes.CLUSTER_ID)).data == znodes.encode_cluster_id(ids[0])
    await store.close()
    store = await EmbeddedStore.open(tmp_path)
    assert await get_or_generate_cluster_id(store) == ids[0]
    await store.close()
    other = await EmbeddedStore.open(tmp_path / "other")
    assert await get_or_generate_cluster_id(other) != ids[0]
    await other.close()
