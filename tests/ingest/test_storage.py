"""What ingests do to the disk: Kafka's tools read it, a full disk refuses and heals, small commits stay small."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.protocol.error_codes import ErrorCode
from tests.ingest.client import ABSENT, COMMITTED, Attempt, IngestClient, batch
from tests.support.disks import LoopDisk, can_mount
from tests.support.kafka_tools import run_tool


def limit_bytes(pid: int, size: int) -> None:
    """What `ulimit -f` does, to a running process: writes beyond it fail as those to a full disk do."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.fixture
def linking() -> Iterator[pybroker.Broker]:
    """Links however little it is."""
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


@pytest.mark.checklist("C10")
@pytest.mark.parametrize("kind", ["disk", "limit"] if can_mount() else ["limit"])
def test_a_full_disk_refuses_and_room_heals(kind: str, tmp_path: Path) -> None:
    disk = LoopDisk(tmp_path / "disk", 64) if kind == "disk" else None
    folder = tmp_path / "data" if disk is None else disk.path / "data"
    try:
        settings = {"log.dirs": f"{tmp_path / 'first'},{folder}"}
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
