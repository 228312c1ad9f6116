"""A broker recognizes a metadata log that lacks records which it has applied."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pybroker.broker.lifecycle.startup import quorum_opening
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.frames import encode_record
from pybroker.broker.metadata.records.snapshots import image_to_records
from pybroker.broker.quorum import seen_metadata
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.quorum.quorum_log import CommittedBatch, SnapshotPosition
from pybroker.broker.quorum.seen_metadata import (
    FILE_NAME,
    OlderMetadataError,
    SeenMetadata,
    SeenPosition,
    read_seen,
    write_seen,
)
from pybroker.broker.replicas import store_guard
from pybroker.broker.replicas.store_guard import accepted_before
from pybroker.errors import FatalError, StartError
from pybroker.protocol import messages as m

RECORD = encode_record(m.NoOpRecord())


class Broker:
    """A broker that has stored a position, and its log."""

    def __init__(self, directory: Path, seen: SeenPosition | None) -> None:
        self.directory = directory
        self.problems: list[FatalError] = []
        if seen is not None:
            write_seen(directory, seen)
        self.loader = MetadataLoader(self.problems.append)
        self.seen = SeenMetadata(directory, self.loader, self.problems.append)

    async def snapshot(self, end_offset: int, epoch: int) -> None:
        pieces = list(image_to_records(ClusterImage.initial(epoch)))
        await self.loader.snapshot(SnapshotPosition(end_offset, epoch), pieces)

    def commit(self, end_offset: int, epoch: int) -> None:
        self.loader.committed(CommittedBatch(end_offset, epoch, [RECORD]))

    @property
    def refused(self) -> bool:
        return any(isinstance(problem, OlderMetadataError) for problem in self.problems)


async def test_log_with_the_position_is_accepted_and_remembered(tmp_path: Path) -> None:
    broker = Broker(tmp_path, SeenPosition(3, 20))
    assert broker.seen.offset == 20
    await broker.snapshot(10, 2)
    broker.commit(15, 2)
    broker.commit(20, 3)
    broker.commit(25, 4)
    broker.seen.caught_up()
    await broker.seen.close()
    assert not broker.problems
    assert read_seen(tmp_path) == SeenPosition(4, 25)


@pytest.mark.parametrize(
    ("positions", "what"),
    [
        ([(10, 2), (15, 3)], "the log ends before the position"),
        ([(10, 2), (15, 3), (18, 4)], "a later epoch begins before the position"),
        ([(15, 3), (20, 4)], "the record before the position has another epoch"),
        ([(15, 2), (21, 2)], "the position has an older epoch"),
    ],
)
async def test_log_without_the_position_is_refused(tmp_path: Path, positions: list[tuple[int, int]], what: str) -> None:
    broker = Broker(tmp_path, SeenPosition(3, 20))
    for position in positions:
        broker.commit(*position)
    broker.seen.caught_up()
    assert broker.refused, what
    assert "accept-restored" in str(broker.problems[0])
    await broker.seen.close()
    assert read_seen(tmp_path) == SeenPosition(3, 20)


async def test_snapshot_beyond_the_position_is_accepted(tmp_path: Path) -> None:
    broker = Broker(tmp_path, SeenPosition(3, 20))
    await broker.snapshot(30, 5)
    broker.seen.caught_up()
    assert not broker.problems


async def test_snapshot_of_an_older_epoch_beyond_the_position_is_refused(tmp_path: Path) -> None:
    broker = Broker(tmp_path, SeenPosition(3, 20))
    await broker.snapshot(30, 2)
    assert broker.refused


async def test_new_positions_are_written_while_the_broker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_metadata, "NOTE_S", 0.0)
    broker = Broker(tmp_path, None)
    broker.commit(5, 1)
    async with asyncio.timeout(30):
        while read_seen(tmp_path) is None:  # noqa: ASYNC110 - a thread writes it
            await asyncio.sleep(0.01)
    assert read_seen(tmp_path) == SeenPosition(1, 5)


async def test_acceptance_of_a_restored_log_is_remembered(tmp_path: Path) -> None:
    broker = Broker(tmp_path, SeenPosition(-1, 0, 77))
    assert (broker.seen.accepted_ms, broker.seen.offset) == (77, 0)
    broker.commit(5, 1)
    broker.seen.caught_up()
    await broker.seen.close()
    assert not broker.problems
    assert read_seen(tmp_path) == SeenPosition(1, 5, 77)


@pytest.mark.parametrize(
    ("seen", "accepted_ms"), [(None, 99), (SeenPosition(1, 5), 99), (SeenPosition(1, 5, 100), 100)]
)
def test_acceptance_of_a_restored_zookeeper_counts_after_a_migration(
    tmp_path: Path, seen: SeenPosition | None, accepted_ms: int
) -> None:
    if seen is not None:
        write_seen(tmp_path, seen)
    (tmp_path / "cluster-seen").write_text('{"epoch":1,"word":"w","decision":2,"accepted":["a"],"accepted_ms":99}')
    loader = MetadataLoader(lambda problem: None)
    found = SeenMetadata(tmp_path, loader, lambda problem: None, accepted_before(tmp_path))
    assert found.accepted_ms == accepted_ms


def test_the_start_of_a_quorum_looks_for_the_file_of_zookeepers_mode() -> None:
    assert quorum_opening.SEEN_ON_ZOOKEEPER == store_guard.FILE_NAME


def test_without_an_acceptance_on_zookeeper_nothing_is_carried_over(tmp_path: Path) -> None:
    assert accepted_before(tmp_path) == -1
    (tmp_path / "cluster-seen").write_text('{"epoch":1,"word":"w","decision":2}')
    assert accepted_before(tmp_path) == -1


def test_unreadable_file_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(StartError, match=FILE_NAME):
        Broker(tmp_path, None)
