"""The time of a removal: it is never early, whatever the wall clock does, and continues across restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import msgspec
import pytest
import pytest_asyncio

from pybroker.broker.clock import FakeClock
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import UpdateCluster
from pybroker.broker.metadata.deletion_records import STAGED, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.metadata_store import ensure_path
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.broker.replicas import staging as module
from pybroker.broker.replicas.image_observers import Purges
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.staged_marks import StoredMarks
from pybroker.broker.replicas.staging import Staging
from pybroker.broker.replicas.stray_evidence import TopicEvidence
from pybroker.native import NativeBroker, Uuid
from tests.support.fake_native import FakeLocalPartition, FakeNative, NoReports

TOPIC = Uuid.random()
DIRECTORY = "/data/t-0"
DELAY_MS = 14_400_000
THREE_DAYS_MS = 3 * 24 * 3_600_000
pytestmark = pytest.mark.checklist("A9", "I1")


class Machine:
    """A disk, a store and clocks that outlive the broker."""

    def __init__(self, store: EmbeddedStore, patch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.native = FakeNative()
        self.clock = FakeClock()
        self._patch = patch
        self.boot = "first"
        self.view = KnownCluster([self])
        self._changes = 0

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Pass a change to the running broker."""
        await Purges(self.staging).apply_change(before, after, change)

    async def shorten(self, delay_max_ms: int) -> None:
        """The controller reports a deletion with an earlier deadline."""
        record = DeletionRecord("t", TOPIC, STAGED, 1, 2, "User:a", 3, {0: (1,)}, {}, 0, delay_max_ms=delay_max_ms)
        self._changes += 1
        image = msgspec.structs.replace(ClusterImage.initial(1), deletions={TOPIC: record})
        assert (await self.view.update(UpdateCluster(1, 1, 1, self._changes, image))).error_code == 0

    async def start(self) -> None:
        """Start a broker on the machine."""
        self._patch.setattr(module, "boot_id", lambda: self.boot)
        known = TopicEvidence(self.view, self.store, 1, complete=False)
        native = cast(NativeBroker, self.native)
        self.staging = Staging(
            native, StoredMarks(self.store, 1), self.clock, known=known, close=self.close, found=NoReports()
        )
        await self.staging.load()
        await self.staging.start(DELAY_MS)

    async def close(self, topic_id: Uuid) -> None:
        """Close a deletion; only called with several brokers."""
        raise AssertionError(topic_id)

    async def restart(self, *, down_ms: int = 0) -> None:
        """Stop the broker, and start the next one later."""
        await self.staging.stop()
        self.clock.advance(down_ms)
        await self.start()

    async def reboot(self, *, down_ms: int = 0, wall_jump_ms: int = 0) -> None:
        """Restart the machine, which resets the monotonic clock."""
        await self.staging.stop()
        self.clock = FakeClock(self.clock.wall_ms() + down_ms + wall_jump_ms, 5)
        self.boot += "+"
        await self.start()

    async def delete(self) -> None:
        """Stage the data like the replica manager after a StopReplica with delete."""
        await self.staging.promise({TOPIC: "t"}, DELAY_MS)
        self.native.log_dirs.stage(DIRECTORY)
        self.staging.staged([TOPIC])

    async def kill(self, *, down_ms: int = 0) -> None:
        """Kill the broker, and start the next one later."""
        task = self.staging._task
        assert task is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.clock.advance(down_ms)
        await self.start()

    async def gone(self) -> bool:
        """Wait until the data is removed."""
        self.staging.staged([])  # this makes the loop read the clock
        async with asyncio.timeout(60):
            while not self.native.purged:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.001)
        return True

    async def stays(self) -> bool:
        """Return whether the data still exists after the loop has read the clock."""
        self.staging.staged([])
        for _ in range(200):
            await asyncio.sleep(0.001)
        return not self.native.purged


@pytest_asyncio.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    store = await EmbeddedStore.open(tmp_path / "store")
    for path in znodes.PERSISTENT_PATHS:
        await ensure_path(store, path)
    machine = Machine(store, monkeypatch)
    machine.native.disk[DIRECTORY] = FakeLocalPartition("/data", DIRECTORY, "t", 0, TOPIC, None)
    await machine.start()
    yield machine
    await machine.staging.stop()
    await store.close()
    machine.native.close()


@pytest.mark.parametrize("jump_ms", [THREE_DAYS_MS, -THREE_DAYS_MS])
async def test_a_wall_clock_that_is_set_moves_nothing(machine: Machine, jump_ms: int) -> None:
    await machine.delete()
    machine.clock.jump(jump_ms)
    assert await machine.stays()
    machine.clock.advance(DELAY_MS - 1)
    assert await machine.stays()
    assert machine.staging.remaining_ms(TOPIC) == 1
    machine.clock.advance(1)
    assert await machine.gone()


@pytest.mark.parametrize("jump_ms", [THREE_DAYS_MS, 0, -THREE_DAYS_MS])
async def test_a_restart_neither_hastens_nor_begins_anew(machine: Machine, jump_ms: int) -> None:
    await machine.delete()
    machine.clock.advance(DELAY_MS // 4)
    machine.clock.jump(jump_ms)
    for _ in range(2):
        await machine.restart(down_ms=DELAY_MS // 4)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS // 4
    machine.clock.jump(-2 * jump_ms)
    machine.clock.advance(DELAY_MS // 4 - 1)
    assert await machine.stays()
    machine.clock.advance(1)
    assert await machine.gone()


@pytest.mark.checklist("X7")
async def test_the_delay_counts_from_the_move_also_after_a_restart(machine: Machine) -> None:
    await machine.staging.promise({TOPIC: "t"}, DELAY_MS)
    machine.clock.advance(90_000)  # a slow disk or a loaded machine takes this long
    machine.native.log_dirs.stage(DIRECTORY)
    machine.staging.staged([TOPIC])
    await machine.restart(down_ms=1_000)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS - 1_000
    machine.clock.advance(DELAY_MS - 1_001)
    assert await machine.stays()
    machine.clock.advance(1)
    assert await machine.gone()


@pytest.mark.checklist("X7")
async def test_a_kill_before_the_move_is_noted_gives_the_whole_delay_again(machine: Machine) -> None:
    await machine.delete()
    machine.clock.advance(module.NOTE_MS - 1)
    await machine.kill(down_ms=DELAY_MS // 2)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS
    # The delay begins anew, and the broker soon stores that. The stored time is valid after another kill.
    machine.clock.advance(module.NOTE_MS)
    machine.staging.staged([])  # this makes the loop read the clock
    path = f"{znodes.STAGED}/1/{TOPIC}"
    for _ in range(60_000):
        if not znodes.decode_staged(path, (await machine.store.get(path)).data).promised:
            break
        await asyncio.sleep(0.001)
    await machine.kill(down_ms=DELAY_MS // 4)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS - DELAY_MS // 4 - module.NOTE_MS


@pytest.mark.checklist("X7")
async def test_a_move_that_a_kill_interrupts_counts_from_the_next_start(machine: Machine) -> None:
    await machine.staging.promise({TOPIC: "t"}, DELAY_MS)
    machine.native.log_dirs.stage(DIRECTORY)
    await machine.kill(down_ms=DELAY_MS - 1)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS
    machine.clock.advance(DELAY_MS)
    assert await machine.gone()


async def test_a_reboot_counts_on_by_wall_time(machine: Machine) -> None:
    await machine.delete()
    await machine.reboot(down_ms=DELAY_MS // 2)
    machine.clock.jump(THREE_DAYS_MS)  # wall time does not count after the reboot
    await machine.restart()
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS - DELAY_MS // 2
    machine.clock.advance(DELAY_MS - DELAY_MS // 2)
    assert await machine.gone()


async def test_a_reboot_into_the_past_waits_one_delay_and_no_more(machine: Machine) -> None:
    await machine.delete()
    await machine.reboot(down_ms=1_000, wall_jump_ms=-THREE_DAYS_MS)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS
    machine.clock.advance(DELAY_MS - 1)
    assert await machine.stays()
    machine.clock.advance(1)
    assert await machine.gone()


@pytest.mark.parametrize("turns", range(4))
async def test_a_stop_that_comes_with_a_wake_up_is_a_stop(machine: Machine, turns: int) -> None:
    await machine.delete()
    await asyncio.sleep(0.01)
    machine.staging.staged([TOPIC])
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await machine.staging.stop()


async def test_a_purge_removes_at_once(machine: Machine) -> None:
    await machine.delete()
    assert await machine.stays()
    await machine.shorten(0)
    assert await machine.gone()


async def test_a_purge_before_the_move_removes_after_it(machine: Machine) -> None:
    await machine.staging.promise({TOPIC: "t"}, DELAY_MS)
    await machine.shorten(0)
    assert await machine.stays()
    machine.native.log_dirs.stage(DIRECTORY)
    machine.staging.staged([TOPIC])
    assert await machine.gone()


async def test_a_shorter_delay_counts_from_the_move_and_goes_on_after_restarts(machine: Machine) -> None:
    await machine.delete()
    machine.clock.advance(DELAY_MS // 4)
    await machine.shorten(DELAY_MS // 2)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS // 4
    # A longer delay changes nothing.
    await machine.shorten(2 * DELAY_MS)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS // 4
    await machine.shorten(DELAY_MS // 2)
    await machine.restart(down_ms=DELAY_MS // 8)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS // 8
    await machine.reboot(wall_jump_ms=-THREE_DAYS_MS)
    assert machine.staging.remaining_ms(TOPIC) == DELAY_MS // 2
    machine.clock.advance(DELAY_MS // 2 - 1)
    assert await machine.stays()
    machine.clock.advance(1)
    assert await machine.gone()
