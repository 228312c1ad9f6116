"""KRaft's metadata log, written by the test: a topic's final state, transactions, snapshots, damage."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from pybroker.broker.metadata.acl_nodes import AclBinding
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.offline.adopt.kafka_batches import MalformedBatchError
from pybroker.broker.offline.adopt.metadata_log import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    LEFT_OUT,
    TAKEN_OVER,
    KafkaMetadata,
    read_metadata,
)
from pybroker.native import Uuid, build_batch
from pybroker.protocol.scram import ScramCredential

UNKNOWN = "this version of pybroker does not know it"
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


def eligible(topic_id: Uuid) -> bytes:
    """Return a partition whose ISR the last replica has left (KIP-966)."""
    body = struct.pack(">i", 0) + raw(topic_id) + numbers(1) + numbers() + numbers() + numbers()
    tagged = b"\x01\x01" + bytes([len(numbers(1))]) + numbers(1)
    return b"\x01\x03\x02" + body + struct.pack(">iii", -1, 0, 0) + b"\x02" + raw(Uuid.random()) + tagged


def credential(user: str, mechanism: int, iterations: int) -> bytes:
    secrets = b"".join(text(one) for one in ("salt", "stored", "server"))
    return b"\x01\x0b\x00" + text(user) + bytes([mechanism]) + secrets + struct.pack(">i", iterations) + b"\0"


def quota(key: str, value: float, *, remove: bool = False, **entity: str | None) -> bytes:
    parts = b"".join(text(kind) + text(name) + b"\0" for kind, name in entity.items())
    return b"\x01\x0e\x00" + bytes([len(entity) + 1]) + parts + text(key) + struct.pack(">d?", value, remove) + b"\0"


def acl(entry_id: Uuid, topic_name: str) -> bytes:
    whose = b"\x03" + text("User:ann") + text("*")
    return b"\x01\x12\x00" + raw(entry_id) + b"\x02" + text(topic_name) + whose + b"\4\3\0"


def token(token_id: str) -> bytes:
    renewers = b"\x03" + text("User:a") + text("User:b")
    times = struct.pack(">qqq", 1, 3, 2)
    return b"\x01\x0a\x00" + text("User:o") + text("User:r") + renewers + times + text(token_id) + b"\0"


def feature(name: str, level: int) -> bytes:
    return b"\x01\x0c\x00" + text(name) + struct.pack(">h", level) + b"\0"


def mark(kind: int) -> bytes:
    return bytes([1, kind, 0, 0])


def written(folder: Path, records: list[bytes], name: str = f"{0:020}.log") -> Path:
    (folder / name).write_bytes(build_batch([(None, value) for value in records], 0))
    return folder


def read(folder: Path, *records: bytes) -> KafkaMetadata:
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
        credential("ann", 1, iterations=4096),
        credential("ann", 2, iterations=8192),
        b"\x01\x16\x00" + text("ann") + b"\x01\0",
        quota("a", 5.0, user="ann", **{"client-id": None}),
        quota("b", 6.0, user="ann", **{"client-id": None}),
        quota("a", 0.0, remove=True, user="ann", **{"client-id": None}),
        acl(A, "kept"),
        acl(B, "removed"),
        b"\x01\x13\x00" + raw(B) + b"\0",
        token("first"),
        token("second"),
        b"\x01\x1a\x00" + text("first") + b"\0",
        feature("group.version", 1),
        feature("share.version", 2),
        feature("share.version", 0),
        feature("metadata.version", 29),
        *[b"\x01\x14\x00whatever it is"] * 2,
        b"\x01\x63\x00whatever it is",
    )
    assert list(found.topics) == [A]
    assert found.topics[A].name == "a"
    assert (found.topics[A].partitions[0].leader_epoch, found.topics[A].partitions[0].leader) == (5, 1)
    assert found.topic_configs == {"a": {"cleanup.policy": "compact"}}
    assert found.broker_configs == {"": {"log.retention.ms": "7"}}
    assert found.group_configs == {"readers": {"consumer.session.timeout.ms": "50000"}}
    assert found.client_metrics_configs == {"all": {"interval.ms": "60000"}}
    assert found.features == {"group.version": 1, "share.version": 0, "metadata.version": 29}
    assert found.next_producer_id == 3000
    security = found.security
    assert security.credentials == {("ann", 2): ScramCredential(b"salt", b"stored", b"server", 8192)}
    assert security.quotas == {(("client-id", None), ("user", "ann")): {"b": 6.0}}
    assert security.acls == {A: AclBinding(2, 3, "kept", "User:ann", "*", 4, 3)}
    assert security.tokens == {"second": DelegationToken("second", "User:o", "User:r", ("User:a", "User:b"), 1, 3, 2)}
    assert found.left_out == {
        ("settings of resource type 64", UNKNOWN): 1,
        ("NoOpRecord", "it has no effect"): 2,
        ("records of type 99", "this version of pybroker does not know them"): 1,
    }


def test_every_type_of_kafka_4_4_is_taken_over_or_named() -> None:
    marks = {BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION}
    never_used = {6, 13, 16}
    assert marks | TAKEN_OVER.keys() | LEFT_OUT.keys() == set(range(30)) - never_used
    assert not TAKEN_OVER.keys() & LEFT_OUT.keys()


def test_replicas_that_are_eligible_no_more(tmp_path: Path) -> None:
    """ClearElrRecord, for one topic and for all topics."""
    both = [topic(A, "a"), eligible(A), topic(B, "b"), eligible(B)]
    found = read(tmp_path, *both, b"\x01\x1c\x00" + text("a") + b"\0")
    assert {one.name: one.partitions[0].eligible for one in found.topics.values()} == {"a": (), "b": (1,)}
    found = read(tmp_path, *both, b"\x01\x1c\x00" + text("") + b"\0")
    assert [one.partitions[0].eligible for one in found.topics.values()] == [(), ()]


@pytest.mark.checklist("R23")
def test_transactions_count_when_they_end(tmp_path: Path) -> None:
    done = [mark(23), topic(A, "a"), mark(24)]
    aborted = [mark(23), topic(B, "b"), mark(25)]
    open_at_the_end = [mark(23), topic(Uuid.random(), "c")]
    assert list(read(tmp_path, *done, *aborted, *open_at_the_end).topics) == [A]


@pytest.mark.checklist("R23")
def test_the_log_goes_on_where_the_snapshot_ends(tmp_path: Path) -> None:
    written(tmp_path, [topic(A, "a"), partition(A, 0)], f"{2:020}-{1:010}.checkpoint")
    # The log still has the records that the snapshot replaces; applying them twice would be wrong.
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
    with pytest.raises(MalformedBatchError):
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
        except MalformedBatchError:
            continue
