"""kill -9 at every named step of begin, append, commit and attach: the records are in all partitions once, or in
none."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import ABSENT, COMMITTED, COMMITTING, OPEN, Attempt, batch
from tests.ingest.crashing import PARTITIONS, Crashing
from tests.ingest.test_ingest import until

EXPECTED = [f"{writer}/{part}" for writer in range(2) for part in range(3)]


def stage(crashing: Crashing, topic_id: Uuid, epoch: int) -> list[Attempt]:
    attempts = [Attempt(writer, 10 + writer) for writer in range(2)]
    for part in range(3):
        for attempt in attempts:
            for partition in range(PARTITIONS):
                crashing.client.append(topic_id, "job", epoch, attempt, partition, [f"{attempt.writer}/{part}"])
    return attempts


@pytest.mark.checklist("A1")
@pytest.mark.parametrize(
    ("step", "decided"),
    [
        ("before prepare", False),
        ("after prepare", False),
        ("before commit is stored", False),
        ("after commit is stored", True),
        pytest.param("before attach 1", True, marks=pytest.mark.slow),
        ("after attach 1", True),
        pytest.param("link after commit is stored", True, marks=pytest.mark.slow),
        ("link after attach 1", True),
        pytest.param("link before attach 2", True, marks=pytest.mark.slow),
        ("link after attach 2", True),
        pytest.param("link after attach 3", True, marks=pytest.mark.slow),
        pytest.param("before finish is stored", True, marks=pytest.mark.slow),
        ("after finish is stored", True),
        ("before drop", True),
        pytest.param("after drop", True, marks=pytest.mark.slow),
    ],
)
def test_commit(crashing: Crashing, step: str, decided: bool) -> None:
    crashing.start(step)
    topic_id = crashing.client.create("t", PARTITIONS)
    epoch = crashing.client.begin(topic_id, "job").epoch
    attempts = stage(crashing, topic_id, epoch)
    with contextlib.suppress(ConnectionError):
        answer = crashing.client.commit(topic_id, "job", epoch, attempts)
        assert step == "after drop", answer
    crashing.dies()
    crashing.start()
    if decided:
        # The broker completes the commit on its own; no client repeats it.
        until(lambda: crashing.values(topic_id) == [EXPECTED] * PARTITIONS)
        until(lambda: crashing.client.begin(topic_id, "job").state == COMMITTED)
        assert crashing.client.abort(topic_id, "job").state in (COMMITTING, COMMITTED)
    else:
        assert crashing.values(topic_id) == [[]] * PARTITIONS
        assert crashing.client.begin(topic_id, "job", join=True).epoch == epoch
    again = crashing.client.commit(topic_id, "job", epoch, attempts)
    assert (again.error_code, again.state, again.repeated) == (0, COMMITTED, decided)
    assert [(p.base_offset, p.end_offset) for p in again.partitions] == [(0, 6)] * PARTITIONS
    assert crashing.values(topic_id) == [EXPECTED] * PARTITIONS
    # The files are removed after the commit is recorded as finished.
    until(lambda: crashing.staged_directories(topic_id) == [])
    crashing.stop()
    crashing.start()
    assert crashing.values(topic_id) == [EXPECTED] * PARTITIONS
    crashing.stop()


@pytest.mark.parametrize(
    ("step", "begun"),
    [("before begin is stored", False), ("after begin is stored", True), ("before open", True), ("after open", True)],
)
def test_begin(crashing: Crashing, step: str, begun: bool) -> None:
    crashing.start()
    topic_id = crashing.client.create("t", PARTITIONS)
    crashing.stop()
    crashing.start(step)
    with pytest.raises(ConnectionError):
        crashing.client.begin(topic_id, "job")
    crashing.dies()
    crashing.start()
    assert [one.state for one in crashing.client.listing()] == ([OPEN] if begun else [])
    epoch = crashing.client.begin(topic_id, "job", join=True).epoch
    attempts = stage(crashing, topic_id, epoch)
    assert crashing.client.commit(topic_id, "job", epoch, attempts).error_code == 0
    assert crashing.values(topic_id) == [EXPECTED] * PARTITIONS
    crashing.stop()


def test_appends_go_on_after_a_crash(crashing: Crashing) -> None:
    crashing.start()
    topic_id = crashing.client.create("t", PARTITIONS)
    epoch = crashing.client.begin(topic_id, "job").epoch
    attempt = Attempt(0, 1)
    for number in range(6):
        for partition in range(PARTITIONS):
            crashing.client.append(topic_id, "job", epoch, attempt, partition, [f"v{number}"])
        if number % 2:
            crashing.kill()
            crashing.start()
    # A request whose response was lost in the crash is repeated, and its records are staged once.
    data = batch(["last"])
    for _ in range(2):
        answer = crashing.client.append_raw(topic_id, "job", epoch, attempt, [(0, 6, data)])
        assert answer.partitions[0].next_sequence == 7
        crashing.kill()
        crashing.start()
    attempt.add(0, data, 1)
    assert crashing.client.commit(topic_id, "job", epoch, [attempt]).error_code == 0
    expected = [f"v{number}" for number in range(6)]
    assert crashing.values(topic_id) == [[*expected, "last"], expected, expected]
    crashing.stop()


@pytest.mark.parametrize("step", ["before abort is stored", "after abort is stored", "before drop", "after drop"])
def test_abort(crashing: Crashing, step: str) -> None:
    crashing.start(step)
    topic_id = crashing.client.create("t", PARTITIONS)
    epoch = crashing.client.begin(topic_id, "job").epoch
    stage(crashing, topic_id, epoch)
    with contextlib.suppress(ConnectionError):
        crashing.client.abort(topic_id, "job")
    crashing.dies()
    crashing.start()
    if step.startswith("before abort"):
        assert crashing.client.abort(topic_id, "job").state == ABSENT
    assert crashing.client.listing() == []
    until(lambda: crashing.staged_directories(topic_id) == [])
    assert crashing.values(topic_id) == [[]] * PARTITIONS
    crashing.stop()


def test_others_append_meanwhile_and_survive(crashing: Crashing) -> None:
    """A commit is killed between two partitions; records of other producers are before and after it."""
    crashing.start("after attach 1")
    topic_id = crashing.client.create("t", PARTITIONS)
    for name, records in (("first", "one"), ("second", "two")):
        epoch = crashing.client.begin(topic_id, name).epoch
        attempt = Attempt(0)
        for partition in range(PARTITIONS):
            crashing.client.append(topic_id, name, epoch, attempt, partition, [records])
        with contextlib.suppress(ConnectionError):
            crashing.client.commit(topic_id, name, epoch, [attempt])
        if name == "first":
            crashing.dies()
            crashing.start()
    until(lambda: all(sorted(part) == ["one", "two"] for part in crashing.values(topic_id)))
    crashing.kill()
    crashing.start()
    assert all(sorted(part) == ["one", "two"] for part in crashing.values(topic_id))
    crashing.stop()


def replace_commit(crashing: Crashing, data: bytes) -> bytes:
    """While the broker is stopped, replace the bytes of the one record of a commit; return the bytes before."""
    with contextlib.closing(sqlite3.connect(crashing.directory / "metadata.db")) as found, found:
        [(before,)] = found.execute("SELECT data FROM node WHERE parent LIKE '/ingest/committed/%'").fetchall()
        found.execute("UPDATE node SET data = ? WHERE parent LIKE '/ingest/committed/%'", (data,))
        return bytes(before)


def test_a_damaged_record_costs_nothing_that_is_staged(crashing: Crashing) -> None:
    """It is unknown whether the ingest was committed: its files stay, and no other ingest can use its id."""
    crashing.start("after commit is stored")
    topic_id = crashing.client.create("t", PARTITIONS)
    epoch = crashing.client.begin(topic_id, "job").epoch
    attempts = stage(crashing, topic_id, epoch)
    with contextlib.suppress(ConnectionError):
        crashing.client.commit(topic_id, "job", epoch, attempts)
    crashing.dies()

    whole = replace_commit(crashing, b"{")
    crashing.start()
    assert crashing.values(topic_id) == [[]] * PARTITIONS
    assert len(crashing.staged_directories(topic_id)) == 1
    refused = crashing.client.begin(topic_id, "job")
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "damaged" in refused.error_message
    assert crashing.client.begin(topic_id, "another").state == OPEN
    crashing.stop()
    replace_commit(crashing, whole)
    crashing.start()
    until(lambda: crashing.values(topic_id) == [EXPECTED] * PARTITIONS)
    crashing.stop()


def test_a_damaged_record_of_a_stream_refuses_its_open_batch(crashing: Crashing) -> None:
    crashing.start()
    topic_id = crashing.client.create("t", PARTITIONS)
    epochs, attempts = [], []
    for batch_id in range(2):
        epochs.append(crashing.client.begin(topic_id, "query", batch_id=batch_id).epoch)
        attempts.append(Attempt(0))
        crashing.client.append(topic_id, "query", epochs[-1], attempts[-1], 0, [str(batch_id)], batch_id=batch_id)
        if batch_id == 0:
            done = crashing.client.commit(topic_id, "query", epochs[0], attempts, batch_id=0)
            assert done.error_code == 0
    crashing.stop()
    whole = replace_commit(crashing, b"{")
    crashing.start()
    refused = crashing.client.begin(topic_id, "query", batch_id=1, join=True)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "damaged: /ingest/committed/" in refused.error_message
    refused = crashing.client.commit(topic_id, "query", epochs[1], attempts[1:], batch_id=1)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "damaged: /ingest/committed/" in refused.error_message
    assert crashing.values(topic_id)[0] == ["0"]
    crashing.stop()
    replace_commit(crashing, whole)
    crashing.start()
    done = crashing.client.commit(topic_id, "query", epochs[1], attempts[1:], batch_id=1)
    assert (done.error_code, crashing.values(topic_id)[0]) == (0, ["0", "1"])
    crashing.stop()
