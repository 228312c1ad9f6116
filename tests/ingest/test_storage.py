"""Ingests on disk: Kafka's tools read their segments, a full disk refuses them until it has space, and small commits
stay small."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import ABSENT, COMMITTED, Attempt, IngestClient, batch
from tests.ingest.crashing import Crashing
from tests.ingest.test_ingest import until
from tests.support.disks import LoopDisk, can_mount
from tests.support.kafka_tools import run_tool

PAGE_BYTES = 4096
FEW_FILES = 400


def limit_bytes(pid: int, size: int) -> None:
    """Apply `ulimit -f` to a running process: writes beyond it fail like writes to a full disk."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.fixture
def linking() -> Iterator[pybroker.Broker]:
    """Let the broker link segments, however small they are."""
    with pybroker.Broker({"log.segment.bytes": 1048576, "ingest.copy.bytes.max": 0}) as broker:
        yield broker


def test_kafkas_dump_tool_reads_attached_segments(linking: pybroker.Broker) -> None:
    with IngestClient(linking.port) as client:
        topic_id = client.create("dumped", 1)
        for name in ("one", "two"):
            epoch = client.begin(topic_id, name).epoch
            attempts = [Attempt(writer) for writer in range(2)]
            for number in range(4):
                for attempt in attempts:
                    texts = [f"{name}/{attempt.writer}/{number}/{i}" + "x" * 30_000 for i in range(10)]
                    client.append(topic_id, name, epoch, attempt, 0, texts)
            answer = client.commit(topic_id, name, epoch, attempts)
            assert (answer.error_code, answer.state) == (0, COMMITTED)
        assert len(client.read(topic_id, 0)) == 160
        linking.stop()
    files = sorted((linking.data_dir / "dumped-0").glob("*.log"))
    assert len(files) > 4
    listed = ",".join(str(path) for path in files)
    dumped = run_tool("kafka-dump-log", ["--files", listed, "--deep-iteration"])
    assert [int(found) for found in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)] == list(range(160))
    assert "isvalid: false" not in dumped
    indexes = [path.with_suffix(suffix) for path in files for suffix in (".index", ".timeindex")]
    there = ",".join(str(path) for path in indexes if path.exists())
    checked = run_tool("kafka-dump-log", ["--files", there, "--index-sanity-check"])
    assert "passed sanity check" in checked
    assert "Mismatches" not in run_tool("kafka-dump-log", ["--files", there])


def test_small_commits_make_no_segments_of_their_own() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client:
        topic_id = client.create("stream", 1)
        for number in range(20):
            epoch = client.begin(topic_id, "query", batch_id=number, join=True).epoch
            attempt = Attempt(0, number)
            client.append(topic_id, "query", epoch, attempt, 0, [str(number)], batch_id=number)
            assert client.commit(topic_id, "query", epoch, [attempt], batch_id=number).error_code == 0
        assert [value for _, value in client.read(topic_id, 0)] == [str(number) for number in range(20)]
        assert len(list((broker.data_dir / "stream-0").glob("*.log"))) == 1


def knows_direct_writes(folder: Path) -> bool:
    """Return whether the file system supports O_DIRECT."""
    try:
        os.close(os.open(folder / "probe", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


def cached(path: Path) -> list[bool]:
    """Return whether each page of the file is in the page cache. Checking does not load it."""
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        found = (ctypes.c_ubyte * -(-size // PAGE_BYTES))()
        start = ctypes.c_char.from_buffer(mapped)
        try:
            asked = ctypes.CDLL(None, use_errno=True).mincore(ctypes.byref(start), ctypes.c_size_t(size), found)
        finally:
            del start
    assert asked == 0, os.strerror(ctypes.get_errno())
    return [bool(page & 1) for page in found]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no O_DIRECT")
def test_a_large_load_does_not_fill_the_page_cache(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    settings = {"log.dirs": str(folder), "ingest.cached.bytes.max": 2_000_000}
    with pybroker.Broker(settings) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        epoch, attempt = client.begin(topic_id, "big").epoch, Attempt(0)
        texts = [f"{number}" + "x" * 900_000 for number in range(12)]
        for text in texts:
            client.append(topic_id, "big", epoch, attempt, 0, [text])
        [file] = folder.glob("ingest/*/*/p0/*/*.log")
        pages = cached(file)
        in_front, behind = pages[: 1_900_000 // PAGE_BYTES], pages[3_000_000 // PAGE_BYTES :]
        assert sum(in_front) == len(in_front)
        if knows_direct_writes(folder):
            # Positions of batches whose offsets are not final yet.
            assert sum(behind) <= 3 * len(texts), f"{sum(behind)} of {len(behind)} pages"
        assert client.commit(topic_id, "big", epoch, [attempt]).state == COMMITTED
        assert [value for _, value in client.read(topic_id, 0)] == texts


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no O_DIRECT")
def test_an_append_that_was_cut_short_does_not_end_direct_writes(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    settings = {"log.dirs": str(folder), "ingest.cached.bytes.max": 0}
    with pybroker.Broker(settings) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        epoch, attempt = client.begin(topic_id, "big").epoch, Attempt(0)
        texts = ["x" * 900_000]
        client.append(topic_id, "big", epoch, attempt, 0, texts)
        # The position is inside a block, where a direct write is impossible.
        limit_bytes(broker.pid, 1_400_123)
        refused = client.append_raw(topic_id, "big", epoch, attempt, [(0, 1, batch(texts))])
        assert refused.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        limit_bytes(broker.pid, resource.RLIM_INFINITY)
        for _ in range(4):
            client.append(topic_id, "big", epoch, attempt, 0, texts)
        [file] = folder.glob("ingest/*/*/p0/*/*.log")
        pages = cached(file)
        if knows_direct_writes(folder):
            assert sum(pages) <= 4 * 5, f"{sum(pages)} of {len(pages)} pages"
        assert client.commit(topic_id, "big", epoch, [attempt]).state == COMMITTED
        assert [value for _, value in client.read(topic_id, 0)] == texts * 5


def refuse_many() -> None:
    """Run in a separate process, whose limits the broker inherits."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
    with pybroker.Broker({"message.max.bytes": 2_000_000}) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        epoch = client.begin(topic_id, "big").epoch
        limit_bytes(broker.pid, 1 << 20)
        data = batch(["x" * 1_200_000])
        for number in range(FEW_FILES + 100):
            refused = client.append_raw(topic_id, "big", epoch, Attempt(number), [(0, 0, data)])
            assert refused.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR, number
        limit_bytes(broker.pid, resource.RLIM_INFINITY)
        with IngestClient(broker.port) as another:
            another.append(topic_id, "big", epoch, Attempt(0), 0, ["y"])


@pytest.mark.checklist("C10")
def test_appends_that_a_full_disk_refuses_keep_no_files_open() -> None:
    command = [sys.executable, "-c", "from tests.ingest.test_storage import refuse_many; refuse_many()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.checklist("C10")
@pytest.mark.parametrize("cached_bytes", [1 << 30, 0])
@pytest.mark.parametrize("kind", ["disk", "limit"] if can_mount() else ["limit"])
def test_a_full_disk_refuses_and_room_heals(kind: str, cached_bytes: int, tmp_path: Path) -> None:
    disk = LoopDisk(tmp_path / "disk", 64) if kind == "disk" else None
    folder = tmp_path / "data" if disk is None else disk.path / "data"
    try:
        settings = {"log.dirs": f"{tmp_path / 'first'},{folder}", "ingest.cached.bytes.max": cached_bytes}
        with pybroker.Broker(settings) as broker, IngestClient(broker.port) as client:
            topic_id = client.create("t", 2)
            partition = 0 if (folder / "t-0").exists() else 1
            epoch = client.begin(topic_id, "big").epoch
            attempt = Attempt(0)
            texts = ["x" * 500_000]
            client.append(topic_id, "big", epoch, attempt, partition, texts)
            if disk is None:
                limit_bytes(broker.pid, 1 << 20)
            else:
                disk.fill()
            refused = 0
            for _ in range(20):
                data = batch(texts)
                rows = attempt.rows[partition]
                answer = client.append_raw(topic_id, "big", epoch, attempt, [(partition, rows, data)])
                assert answer.error_code == 0
                if answer.partitions[0].error_code:
                    assert answer.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
                    refused += 1
                else:
                    attempt.add(partition, data, 1)
            assert refused > 10
            if disk is None:
                limit_bytes(broker.pid, resource.RLIM_INFINITY)
            else:
                disk.free()
            client.append(topic_id, "big", epoch, attempt, partition, texts)
            assert client.commit(topic_id, "big", epoch, [attempt]).error_code == 0
            assert len(client.read(topic_id, partition)) == attempt.rows[partition]
            assert client.abort(topic_id, "other").state == ABSENT
    finally:
        if disk is not None:
            disk.close()


def test_what_an_abort_could_not_remove_goes_with_the_next_start(crashing: Crashing) -> None:
    crashing.start()
    topic_id = crashing.client.create("t", 1)
    crashing.client.append(topic_id, "job", crashing.client.begin(topic_id, "job").epoch, Attempt(0), 0, ["a"])
    [staged] = crashing.staged_directories(topic_id)
    aside = crashing.directory / "aside"
    staged.rename(aside)
    staged.write_text("what is no directory cannot be removed as one")
    answer = crashing.client.abort(topic_id, "job")
    assert (answer.error_code, answer.state) == (0, ABSENT)
    assert crashing.client.listing() == []
    crashing.stop()
    staged.unlink()
    aside.rename(staged)
    crashing.start()
    until(lambda: crashing.staged_directories(topic_id) == [])
