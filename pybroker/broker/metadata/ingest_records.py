"""Records of staged ingests in the store (docs/staged-ingest.md).

    /ingest/open/[topic id]/[key]        open ingests; removed by commit, abort and expiry
    /ingest/committed/[topic id]/[key]   created by the multi that decides the commit; gets the offsets later

Keys are digests, because clients choose the names. A stream has one znode under `committed`, for its latest batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from pybroker.broker.metadata.znodes import DamagedNodeError, decode_json, parse_topic_id
from pybroker.native import Uuid

INGEST_OPEN = "/ingest/open"
INGEST_COMMITTED = "/ingest/committed"
"""Each broker creates both parent znodes at its start. The znode of a topic below them is created by the first decision
that needs it."""

OPEN = "open"
COMMITTING = "committing"
"""The commit is decided; not all partitions have the records yet."""
COMMITTED = "committed"

NO_BATCH = -1

ANSWERED_SETTINGS = ("cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type")
"""The topic settings in IngestBegin's response. The record of a committed ingest contains only these."""

IngestKey = tuple[Uuid, str, int]
"""(topic id, ingest id, batch id)."""
SeriesKey = tuple[Uuid, str, bool]
"""(topic id, ingest id, whether it is a stream): a stream has one entry among the committed ingests."""


PENDING = -1
LOST = -2


class IngestedPartition(msgspec.Struct, frozen=True):
    """A partition's part of a commit. Offsets are PENDING until the segments are linked, and LOST if every replica has
    lost the segments. `end_offset` is exclusive."""

    rows: int
    bytes: int
    base_offset: int = PENDING
    end_offset: int = PENDING


class IngestRecord(msgspec.Struct, frozen=True):
    """One ingest."""

    topic_id: Uuid
    ingest_id: str
    batch_id: int
    epoch: int
    state: str
    ttl_ms: int
    created_ms: int
    config: Mapping[str, str]
    """The topic's settings at the beginning of the ingest, which apply to all its records. A committed ingest has only
    ANSWERED_SETTINGS."""
    committed_ms: int = 0
    partitions: Mapping[int, IngestedPartition] = {}
    plan: int = 0
    """In a cluster, after the commit: the number of the committed plan. Brokers may have several plans on disk."""
    reopened: int = 0
    """Number of failed prepares. A prepare that began before the last failure no longer counts."""
    touched_ms: int = 0
    """In a cluster: the last stored time of an append."""

    @property
    def last_ms(self) -> int:
        """The time from which the ingest's ttl is counted."""
        return max(self.created_ms, self.touched_ms)

    @property
    def key(self) -> IngestKey:
        return self.topic_id, self.ingest_id, self.batch_id

    @property
    def series(self) -> SeriesKey:
        return series_of(self.key)

    @property
    def directory(self) -> str:
        """Name of the directory with the ingest's files. Each epoch has its own directory."""
        return f"{_digest(str(self.batch_id), self.ingest_id)}-{self.epoch}"

    @property
    def pending(self) -> list[int]:
        """Partitions that may not have linked the segments yet."""
        return [index for index, part in self.partitions.items() if part.base_offset == PENDING]

    @property
    def lost(self) -> list[int]:
        """Partitions whose segments are permanently lost."""
        return [index for index, part in self.partitions.items() if part.base_offset == LOST]

    @property
    def append_time(self) -> bool:
        """Whether the records get the timestamp of the commit. If the setting is missing, records keep their own
        timestamps."""
        return self.config.get("message.timestamp.type") == "LogAppendTime"

    @property
    def path(self) -> str:
        """The path of the record's znode. It depends on the state of the ingest."""
        opened, committed = ingest_paths(self.key)
        return opened if self.state == OPEN else committed

    @property
    def folder(self) -> str:
        """The parent of the record's znode."""
        return self.path.rpartition("/")[0]

    def committed(self) -> IngestRecord:
        """Return the record with these partitions marked as having the records."""
        rules = {name: self.config[name] for name in ANSWERED_SETTINGS if name in self.config}
        return msgspec.structs.replace(self, state=COMMITTED, config=rules)

    def encode(self) -> bytes:
        fields = msgspec.structs.asdict(self)
        fields["topic_id"] = str(self.topic_id)
        # Store four numbers per partition, without field names, so that a commit to 10,000 partitions fits into one
        # value of the store.
        fields["partitions"] = {index: msgspec.structs.astuple(part) for index, part in self.partitions.items()}
        return msgspec.json.encode({"version": 1, **fields})


def series_of(key: IngestKey) -> SeriesKey:
    """Return the key of an ingest's committed record."""
    return key[0], key[1], key[2] != NO_BATCH


def ingest_paths(key: IngestKey) -> tuple[str, str]:
    """Return the znodes that an ingest may have: the open and the committed record."""
    topic_id, ingest_id, batch_id = key
    kind = "stream" if series_of(key)[2] else "one"
    return (
        f"{INGEST_OPEN}/{topic_id}/{_digest(str(batch_id), ingest_id)}",
        f"{INGEST_COMMITTED}/{topic_id}/{_digest(kind, ingest_id)}",
    )


def topic_paths(topic_id: Uuid) -> tuple[str, str]:
    """Return the parents of a topic's ingest records."""
    return f"{INGEST_OPEN}/{topic_id}", f"{INGEST_COMMITTED}/{topic_id}"


def _digest(kind: str, ingest_id: str) -> str:
    return hashlib.sha256(f"{kind}\0{ingest_id}".encode()).hexdigest()[:32]


class _RecordJson(msgspec.Struct):
    topic_id: str
    ingest_id: str
    batch_id: int
    epoch: int
    state: str
    ttl_ms: int
    created_ms: int
    config: dict[str, str]
    committed_ms: int = 0
    partitions: dict[int, tuple[int, int, int, int] | IngestedPartition] = {}
    """Earlier versions of pybroker wrote the numbers with field names."""
    plan: int = 0
    reopened: int = 0
    touched_ms: int = 0


def decode_ingest(path: str, data: bytes) -> IngestRecord:
    """Return the record in a znode. Raises DamagedNodeError, which names the znode and the problem."""
    node: _RecordJson = decode_json(path, data, _RecordJson)
    fields = msgspec.structs.asdict(node)
    fields["topic_id"] = parse_topic_id(path, node.topic_id)
    fields["partitions"] = {
        index: part if isinstance(part, IngestedPartition) else IngestedPartition(*part)
        for index, part in node.partitions.items()
    }
    record = IngestRecord(**fields)
    if record.path != path:
        raise DamagedNodeError(f"{path}: its content belongs to {record.path}")
    return record
