"""KRaft's metadata log, made by hand: what a topic is in the end, transactions, snapshots, damage."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from pybroker.native import Uuid, build_batch
from pybroker.offline.adopt.batches import Malformed
from pybroker.offline.adopt.metadata_log import Metadata, read_metadata

A, B = Uuid.random(), Uuid.random()


def text(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def numbers(*values: int) -> bytes:
    return bytes([len(values) + 1]) + b"".join(struct.pack(">i", value) for value in values)


def raw(topic_id: Uuid) -> bytes:
    return bytes.fromhex(topic_id.hex)


def topic(topic_id: Uuid, name: str) -> bytes:
    return b"\x01\x02\x00" + text(name) + raw(topic_id) + b"\0"


def partition(topic_id: Uuid, index: int, epoch: int = 0) -> bytes:
    body = struct.pack(">i", index) + raw(topic_id) + numbers(1) + numbers(1) + numbers() + numbers()
    return b"\x01\x03\x01" + body + struct.pack(">iii", 1, epoch, 0) + b"\x02" + raw(Uuid.random()) + b"\0"


def new_leader(topic_id: Uuid, index: int, leader: int) -> bytes:
    tagged = b"\x01\x01\x04" + struct.pack(">i", leader)
    return b"\x01\x05\x00" + struct.pack(">i", index) + raw(topic_id) + tagged


def config(kind: int, resource: str, name: str, value: str | None) -> bytes:
    return b"\x01\x04\x00" + bytes([kind]) + text(resource) + text(name) + text(value) + b"\0"


def remove(topic_id: Uuid) -> bytes:
    return b"\x01\x09\x00" + raw(topic_id) + b"\0"


def mark(kind: int) -> bytes:
    return bytes([1, kind, 0, 0])


def written(folder: Path, records: list[bytes], name: str = f"{0:020}.log") -> Path:
    (folder / name).write_bytes(build_batch([(None, value) for value in records], 0))
    return folder


def read(folder: Path, *records: bytes) -> Metadata:
    return read_metadata(written(folder, list(records)))


@pytest.mark.checklist("R23")
def test_the_state_in_the_end(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        topic(A, "a"),
        partition(A, 0, epoch=3),
        new_leader(A, 0, -1),
        new_leader(A, 0, 1),
        config(2, "a", "cleanup.policy", "compact"),
        config(2, "a", "retention.ms", "5"),
        config(2, "a", "retention.ms", None),
        config(4, "", "log.retention.ms", "7"),
        config(32, "readers", "consumer.session.timeout.ms", "50000"),
        config(16, "all", "interval.ms", "60000"),
        config(64, "unheard-of", "a", "b"),
        topic(B, "b"),
        partition(B, 0),
        config(2, "b", "retention.ms", "1"),
        remove(B),
        b"\x01\x0f\x00" + struct.pack(">iqq", 1, 0, 3000) + b"\0",
        b"\x01\x12\x00whatever an ACL is",
    )
    assert list(found.topics) == [A]
    assert found.topics[A].name == "a"
    assert (found.topics[A].partitions[0].leader_epoch, found.topics[A].partitions[0].leader) == (5, 1)
    assert found.topic_configs == {"a": {"cleanup.policy": "compact"}}
    assert found.broker_configs == {"": {"log.retention.ms": "7"}}
    assert found.group_configs == {"readers": {"consumer.session.timeout.ms": "50000"}}
    assert found.client_metrics_configs == {"all": {"interval.ms": "60000"}}
    assert found.next_producer_id == 3000
    assert found.passed_over == {"ACLs": 1, "settings of resource type 64": 1}


@pytest.mark.checklist("R23")
def test_transactions_count_when_they_end(tmp_path: Path) -> None:
    done = [mark(23), topic(A, "a"), mark(24)]
    aborted = [mark(23), topic(B, "b"), mark(25)]
    open_at_the_end = [mark(23), topic(Uuid.random(), "c")]
    assert list(read(tmp_path, *done, *aborted, *open_at_the_end).topics) == [A]


@pytest.mark.checklist("R23")
def test_the_log_goes_on_where_the_snapshot_ends(tmp_path: Path) -> None:
    written(tmp_path, [topic(A, "a"), partition(A, 0)], f"{2:020}-{1:010}.checkpoint")
    # The log still has what the snapshot stands for; applied twice it would be wrong.
    found = read(tmp_path, topic(B, "gone"), remove(B), partition(A, 1), config(2, "a", "retention.ms", "1"))
    assert list(found.topics) == [A]
    assert sorted(found.topics[A].partitions) == [0, 1]


@pytest.mark.checklist("R23")
@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x02\x02\x00",
        b"\x01\x02\x07" + text("a") + raw(A),
        partition(A, 0),
        b"\x01\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x01\x02\x00" + text("a"),
    ],
    ids=["empty", "newer frame", "newer version", "topic not known", "endless length", "cut"],
)
def test_damage_and_newer_records_are_refused(tmp_path: Path, record: bytes) -> None:
    with pytest.raises(Malformed):
        read(tmp_path, record)


@pytest.mark.checklist("R23")
def test_any_bytes_are_read_or_refused(tmp_path: Path) -> None:
    whole = [topic(A, "a"), partition(A, 0), new_leader(A, 0, 1), config(2, "a", "x", "y"), remove(A)]
    chance = random.Random(23)
    for _ in range(2000):
        record = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 3)):
            record[chance.randrange(len(record))] = chance.randrange(256)
        try:
            read(tmp_path, topic(A, "a"), partition(A, 0), bytes(record))
        except Malformed:
            continue
