"""Ingests during deletions and undeletes, with a native core whose calls can be held or fail."""

from __future__ import annotations

import asyncio
import time

import pytest

from pybroker.broker.ingest.ingest_expiry import ROUND_S_EACH, Expiry
from pybroker.broker.ingest.staged_file_removal import RETRY_MS
from pybroker.broker.metadata.ingest_records import COMMITTED, COMMITTING
from pybroker.native import ListedAttempt, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsRequest_DeleteTopicState,
    UndeleteTopicsRequest,
    UndeleteTopicsRequest_UndeletableTopic,
)
from tests.unit.control_plane import ControlPlane, until
from tests.unit.ingest.held import HeldIngests, create, ingests, remember

LISTED = ListedAttempt(partition=0, writer=0, attempt=0, rows=1, bytes=70, checksum=0)
WAIT_S = 120


def alive(plane: ControlPlane) -> bool:
    assert plane.broker is not None
    return not plane.broker.failed.done()


async def delete(plane: ControlPlane, topic_id: Uuid) -> None:
    topics = [DeleteTopicsRequest_DeleteTopicState(name=None, topic_id=topic_id)]
    [answer] = (await plane.call(20, DeleteTopicsRequest(topics=topics, timeout_ms=30_000), 6)).responses
    assert answer.error_code == 0, answer


async def undelete(plane: ControlPlane, topic_id: Uuid) -> None:
    topics = [UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id)]
    [answer] = (await plane.call(32143, UndeleteTopicsRequest(topics=topics, timeout_ms=30_000))).topics
    assert answer.error_code == 0, answer


async def test_a_topic_that_is_back_before_its_ingests_are_removed_takes_new_ones(
    control_plane: ControlPlane, held: HeldIngests
) -> None:
    await control_plane.start()
    topic_id = await create(control_plane)
    await ingests(control_plane).begin((topic_id, "old", -1), -1, False)
    held.drops.clear()
    await delete(control_plane, topic_id)
    await undelete(control_plane, topic_id)
    key = (topic_id, "new", -1)
    begun = await ingests(control_plane).begin(key, -1, False)
    held.drops.set()
    await until(lambda: ("drop", "old") in held.calls, WAIT_S)
    await asyncio.sleep(0.05)
    outcome = await ingests(control_plane).commit(key, begun.epoch, [LISTED])
    assert (outcome.record.state, outcome.problem) == (COMMITTED, None)
    assert alive(control_plane)


async def test_a_node_that_is_missing_in_the_store_is_made_by_the_commit(
    control_plane: ControlPlane, held: HeldIngests
) -> None:
    """An earlier release may have left this state."""
    broker = await control_plane.start()
    topic_id = await create(control_plane)
    key = (topic_id, "job", -1)
    begun = await ingests(control_plane).begin(key, -1, False)
    assert broker.services is not None
    names = await control_plane.store.children("/ingest/committed")
    for name in names:
        await control_plane.store.delete(f"/ingest/committed/{name}")
    await control_plane.stop()
    await control_plane.start()
    assert (await ingests(control_plane).commit(key, begun.epoch, [LISTED])).record.state == COMMITTED
    assert alive(control_plane)


async def test_what_runs_for_an_ingest_ends_before_its_files_are_removed(
    control_plane: ControlPlane, held: HeldIngests
) -> None:
    await control_plane.start()
    topic_id = await create(control_plane)
    key = (topic_id, "job", -1)
    begun = await ingests(control_plane).begin(key, -1, False)
    held.prepares.clear()
    commit = asyncio.create_task(ingests(control_plane).commit(key, begun.epoch, [LISTED]))
    await until(lambda: ("prepare", "job") in held.calls, WAIT_S)
    await delete(control_plane, topic_id)
    await asyncio.sleep(0.1)
    assert ("drop", "job") not in held.calls
    held.prepares.set()
    await asyncio.wait([commit])
    assert getattr(commit.exception(), "code", None) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    await until(lambda: ("drop", "job") in held.calls, WAIT_S)
    assert [name for name, _ in held.calls] == ["open", "prepare", "prepared", "reopen", "drop"]


async def test_files_that_cannot_be_removed_do_not_keep_the_others(
    control_plane: ControlPlane, held: HeldIngests, caplog: pytest.LogCaptureFixture
) -> None:
    await control_plane.start()
    topic_id = await create(control_plane)
    for name in ("one", "two", "three"):
        await ingests(control_plane).begin((topic_id, name, -1), -1, False)
    held.failing = {"one"}
    await delete(control_plane, topic_id)
    await until(lambda: {name for call, name in held.calls if call == "drop"} == {"one", "two", "three"}, WAIT_S)
    await until(lambda: "cannot remove the staged files of an ingest ingest='one' topic=t" in caplog.text, WAIT_S)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pause between two checks of expiry: the test advances the clock."""
    monkeypatch.setattr("pybroker.broker.ingest.ingest_expiry.ROUND_S_MAX", 0.05)


@pytest.mark.usefixtures("often")
async def test_files_that_cannot_be_removed_are_tried_again(
    control_plane: ControlPlane, held: HeldIngests, caplog: pytest.LogCaptureFixture
) -> None:
    """The ingest ends by abort, expiry, an empty commit or a repeated begin. Each is decided, whatever the state of the
    disk."""
    await control_plane.start()
    topic_id = await create(control_plane)
    ingest = ingests(control_plane)
    names = ["aborted", "anew", "empty", "expired", "fine"]
    held.failing, held.partitions = {*names} - {"fine"}, []
    begun = {name: await ingest.begin((topic_id, name, -1), 60_000, False) for name in names[:3]}
    assert await ingest.abort((topic_id, "aborted", -1), -1) is None
    assert (await ingest.begin((topic_id, "anew", -1), 3_600_000, False)).epoch == begun["anew"].epoch + 1
    outcome = await ingest.commit((topic_id, "empty", -1), begun["empty"].epoch, [])
    assert (outcome.record.state, outcome.repeated, outcome.problem) == (COMMITTED, False, None)
    for name in names[3:]:
        await ingest.begin((topic_id, name, -1), 1, False)
    control_plane.clock.advance(10)
    await until(lambda: ("drop", "expired") in held.calls and ("drop", "fine") in held.calls, WAIT_S)
    assert [view.record.ingest_id for view in ingest.views(False)] == ["anew"]
    for name in sorted(held.failing):
        told = f"staged files of an ingest ingest='{name}' topic=t (id {topic_id}) (retrying)"
        await until(lambda told=told: told in caplog.text, WAIT_S)  # type: ignore[misc]

    await asyncio.sleep(0.2)
    dropped = [name for call, name in held.calls if call == "drop"]
    assert sorted(dropped) == names, "not before its time"
    held.failing = {"empty"}
    control_plane.clock.advance(RETRY_MS)
    await until(lambda: "ended ingests, retrying ingests=1: " in caplog.text, WAIT_S)
    held.failing = set()
    held.calls.clear()
    control_plane.clock.advance(RETRY_MS)
    await until(lambda: ("drop", "empty") in held.calls, WAIT_S)
    control_plane.clock.advance(RETRY_MS)
    await asyncio.sleep(0.2)
    assert held.calls == [("drop", "empty")], "what is removed is not tried again"


@pytest.mark.usefixtures("often")
async def test_what_is_tried_again_is_bounded(
    control_plane: ControlPlane, held: HeldIngests, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pybroker.broker.ingest.staged_file_removal.LEFT_MAX", 1)
    await control_plane.start()
    topic_id = await create(control_plane)
    held.failing = {"one", "two"}
    for name in ("one", "two"):
        await ingests(control_plane).begin((topic_id, name, -1), -1, False)
        await ingests(control_plane).abort((topic_id, name, -1), -1)
    assert f"ingest='two' topic=t (id {topic_id}) (the next start removes them)" in caplog.text
    held.calls.clear()
    control_plane.clock.advance(RETRY_MS)
    await until(lambda: held.calls == [("drop", "one")], WAIT_S)


@pytest.mark.usefixtures("often")
async def test_a_round_of_the_janitor_that_fails_is_not_its_last(
    control_plane: ControlPlane, held: HeldIngests, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pybroker.broker.ingest.ingest_expiry.RETRY_S", 0.01)
    await control_plane.start()
    topic_id = await create(control_plane)
    broken = [True]

    def expire(*_: object) -> bool:
        if broken:
            broken.pop()
            raise ValueError("unforeseen")
        return True

    monkeypatch.setattr(held, "expire", expire)
    await ingests(control_plane).begin((topic_id, "job", -1), 1, False)
    control_plane.clock.advance(10)
    await until(lambda: ("drop", "job") in held.calls, WAIT_S)
    assert "this is a bug in pybroker" in caplog.text


async def test_a_decided_commit_is_finished_by_the_start(
    control_plane: ControlPlane, held: HeldIngests, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic becomes visible long before ingests are started; the commit is not linked before the start."""
    await control_plane.start()
    topic_id = await create(control_plane)
    key = (topic_id, "job", -1)
    begun = await ingests(control_plane).begin(key, -1, False)
    held.full = True
    assert (await ingests(control_plane).commit(key, begun.epoch, [LISTED])).record.state == COMMITTING
    await control_plane.stop()
    held.full = False
    await control_plane.start()
    await until(lambda: [view.record.state for view in ingests(control_plane).views(True)] == [COMMITTED], WAIT_S)
    assert "this is a bug" not in caplog.text


async def test_many_ingests_are_looked_through_less_often(
    control_plane: ControlPlane, held: HeldIngests, monkeypatch: pytest.MonkeyPatch
) -> None:
    await control_plane.start()
    topic_id = await create(control_plane)
    looks = 0

    async def look(_: Expiry) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(Expiry, "_expire", look)
    await ingests(control_plane).begin((topic_id, "short", -1), 1, False)
    await until(lambda: looks >= 3, WAIT_S)
    remember(control_plane, topic_id, 20_000)
    await asyncio.sleep(0.1)
    looks, begun = 0, time.monotonic()
    for number in range(20):
        await ingests(control_plane).begin((topic_id, f"more {number}", -1), 1, False)
        await asyncio.sleep(0.03)
    assert looks <= 1 + (time.monotonic() - begun) / (20_000 * ROUND_S_EACH)
