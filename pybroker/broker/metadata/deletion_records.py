"""Deletion records, `/admin/deleted_topics/[topic id]`. A record describes one deletion, from the request until the
last byte is removed. Afterwards it remains as a tombstone with the topic's history, and proves that the id is deleted.
Stray replicas of an unknown topic id have a record as well; its state is FOUND.

A record may exceed the size of a znode (50,000 partitions, or a thousand groups' offsets). In this case its large
fields, which rarely change, are stored in pieces: the znodes `/0`, `/1`, … below the record's own znode. The controller
may write the pieces before it decides the deletion; until then, the record's znode has the state PREPARED. If the
deletion is never decided, the next load removes the znode and the pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.lineage import DELETED, TopicLineage
from pybroker.broker.metadata.metadata_store import Create, Delete, Node, Operation, Set
from pybroker.broker.metadata.znodes import DamagedNodeError
from pybroker.native import Uuid

DELETING = "deleting"
"""The topic's name is free, but some brokers have not confirmed that their data is staged."""
STAGED = "staged"
"""Every replica has staged its data; it is kept until the delay ends."""
UNDELETING = "undeleting"
"""The replicas are moving their data back; the topic's future name is reserved."""
LIVE = "live"
"""The topic is live again; group offsets or transaction markers still have to be restored."""
REMOVED = "removed"
"""The data is removed. The record stays as a tombstone, which proves that the id is deleted."""

FOUND = "found"
"""Stray replicas. The topic is unknown; brokers have staged its data and keep it."""
PREPARED = "prepared"
"""Only in a znode: the controller is writing the pieces for a deletion that it has not decided yet."""

DEAD_STATES = frozenset({DELETING, STAGED, REMOVED})
"""States in which no replica of the topic may be in service."""

PIECE_BYTES_MAX = 512 * 1024
"""Size limit of a znode's value in this module; stores accept 1 MiB."""


BULK = ("partitions", "offsets", "ends", "isr", "departed")
"""Fields stored in pieces if the record exceeds the size of a znode."""


class TransactionOutcome(msgspec.Struct, frozen=True):
    """The outcome of a transaction that wrote to the topic before its deletion. If the topic is undeleted, its
    partitions get a marker with this outcome."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    version: int
    """Version of the transaction protocol."""
    partitions: tuple[int, ...]


OUTCOMES_MAX = 10_000
"""Limit of partitions with an outcome in one record, because the record must fit into a znode."""


class DeletionRecord(msgspec.Struct, frozen=True):
    """A deletion record. Times are wall time in milliseconds."""

    topic: str
    topic_id: Uuid
    state: str
    created_ms: int
    deleted_ms: int
    deleted_by: str
    remove_after_ms: int
    """Wall time, by the broker's own clock, before which no broker removes the data."""
    partitions: Mapping[int, tuple[int, ...]]
    config: Mapping[str, str]
    leader_epoch_max: int
    offsets: tuple[Mapping[str, Any], ...] = ()
    """Committed offsets of groups; an undelete restores them."""
    how: str = DELETED
    """delete or truncate; "found" for stray replicas before an operator decides."""
    ends: tuple[tuple[int, int], ...] = ()
    """(log start offset, log end offset) by partition; -1: not known."""
    lineage: TopicLineage = TopicLineage()
    successor: Uuid | None = None
    """The incarnation that replaced the topic, if the same decision created it."""
    restore_as: str | None = None
    """In state UNDELETING: the topic's future name."""
    restored_by: str = ""
    restored_ms: int = -1
    offsets_for: Uuid | None = None
    """The incarnation for which `offsets` have to be restored: the topic itself after an undelete, its successor after
    a truncation. None if there are no offsets to restore."""
    by_order: bool = False
    """True if the topic was deleted in the format without topic ids. Then the topic's znode and the request in
    `/admin/delete_topics` keep the name in use until every replica has responded."""
    isr: tuple[tuple[int, ...], ...] = ()
    """The ISR by partition. Only its members may lead after an undelete. Empty in old records, which have no such
    field."""
    missing: tuple[int, ...] | None = None
    """In state DELETING: brokers that have not confirmed the staging. None: no broker has confirmed."""
    closed: bool = False
    """Whether the topic can no longer be undeleted: brokers may remove its data."""
    outcomes: tuple[TransactionOutcome, ...] = ()
    """Outcomes of transactions that ended after the deletion. In state LIVE: only the outcomes whose markers are not
    written yet."""
    departed: Mapping[int, tuple[int, ...]] = {}
    """Partition → brokers from which the partition was moved away earlier and which may still have its data."""
    pieces: int = 0
    """Number of znodes below the record's own, as last read or written."""
    unregistered: tuple[int, ...] = ()
    """Brokers that had data of the topic and have been unregistered. The deletion does not wait for them."""
    offsets_given: tuple[str, ...] = ()
    """Groups whose offsets have been restored for `offsets_for`. The other groups have their coordinators on other
    brokers."""
    delay_max_ms: int = -1
    """Upper limit for the time during which brokers keep staged data. Set if an administrator shortened the delay of
    this deletion; 0: the topic was purged. -1: the delay in the broker's settings applies."""

    @property
    def offsets_mark(self) -> int:
        """A number that grows with each offset that is added or replaced by a later one."""
        return sum(offset.get("log_offset", -1) + 2 for offset in self.offsets)

    @property
    def purged(self) -> bool:
        """Whether brokers remove the data immediately."""
        return self.delay_max_ms == 0

    @property
    def undeletable(self) -> bool:
        """Whether the topic can still be undeleted."""
        return self.state in (DELETING, STAGED, FOUND) and not self.closed and not self.by_order

    @property
    def brokers(self) -> set[int]:
        """All brokers that had a replica, except brokers that were unregistered since."""
        had = {broker for replicas in self.partitions.values() for broker in replicas}
        return had.difference(self.unregistered)

    @property
    def unconfirmed(self) -> set[int]:
        """Brokers that have not confirmed the staging of their data."""
        if self.state != DELETING:
            return set()
        if self.missing is not None:
            return set(self.missing)
        return self.brokers.union(*self.departed.values()).difference(self.unregistered)

    def holders(self, partition: int) -> tuple[int, ...]:
        """Return the brokers that may have data of a partition."""
        return self._known((*self.partitions[partition], *self.departed.get(partition, ())))

    def held_by(self, broker_id: int) -> list[int]:
        """Return the partitions of which a broker may have data."""
        if broker_id in self.unregistered:
            return []
        return [index for index in self.partitions if broker_id in self.holders(index)]

    def lacking(self, offsets: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
        """Return the committed offsets of which this record has none, or an older one, of the same group and partition.

        A group's commits are in one partition of the offsets topic: the offset in that log orders them.
        """
        known = {(offset["group"], offset["partition"]): offset.get("log_offset", -1) for offset in self.offsets}
        return tuple(
            offset
            for offset in offsets
            if (key := (offset["group"], offset["partition"])) not in known
            or known[key] < offset.get("log_offset", -1)
        )

    def replicas(self, partition: int) -> tuple[int, ...]:
        """Return the replicas that a partition will have if the topic is undeleted."""
        return self._known(self.partitions[partition])

    def in_sync(self, partition: int) -> tuple[int, ...]:
        """Return the replicas that may lead a partition after an undelete."""
        return self._known(self.isr[partition] if partition < len(self.isr) else self.partitions[partition])

    def _known(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        gone = self.unregistered
        return tuple(broker for broker in brokers if broker not in gone) if gone else brokers

    def encode(self) -> bytes:
        fields = msgspec.structs.asdict(self)
        for name in ("topic_id", "pieces"):
            del fields[name]
        return msgspec.json.encode({"version": 1, "id": str(self.topic_id), **fields}, enc_hook=str)

    def encode_head(self, pieces: int) -> bytes:
        """Return the record without the fields that are stored in pieces."""
        fields = msgspec.structs.asdict(self)
        for name in ("topic_id", *BULK):
            del fields[name]
        return msgspec.json.encode({"version": 1, "id": str(self.topic_id), **fields, "pieces": pieces}, enc_hook=str)

    def encode_bulk(self) -> bytes:
        """Return the fields that are stored in pieces."""
        return msgspec.json.encode({name: getattr(self, name) for name in BULK}, enc_hook=str)

    def end(self, partition: int) -> tuple[int, int]:
        """Return (log start offset, log end offset) of a partition; -1: not known."""
        return self.ends[partition] if partition < len(self.ends) else (-1, -1)


class _Json(msgspec.Struct):
    topic: str
    id: str
    state: str
    created_ms: int
    deleted_ms: int
    deleted_by: str
    remove_after_ms: int
    partitions: dict[int, tuple[int, ...]]
    config: dict[str, str]
    leader_epoch_max: int
    offsets: tuple[dict[str, Any], ...] = ()
    how: str = DELETED
    ends: tuple[tuple[int, int], ...] = ()
    lineage: TopicLineage = TopicLineage()
    successor: str | None = None
    restore_as: str | None = None
    restored_by: str = ""
    restored_ms: int = -1
    offsets_for: str | None = None
    by_order: bool = False
    isr: tuple[tuple[int, ...], ...] = ()
    missing: tuple[int, ...] | None = None
    closed: bool = False
    outcomes: tuple[TransactionOutcome, ...] = ()
    departed: dict[int, tuple[int, ...]] = {}
    unregistered: tuple[int, ...] = ()
    offsets_given: tuple[str, ...] = ()
    delay_max_ms: int = -1


class DeletionHead(msgspec.Struct):
    """The content of a record's own znode, even if the record is stored in pieces."""

    state: str
    pieces: int = 0
    topic: str = ""
    deleted_ms: int = -1
    """-1, with an empty name, in a znode of an older version of pybroker: it did not store these fields here if the
    record was in pieces."""
    closed: bool = False


def decode_deletion(path: str, data: bytes, pieces: int = 0) -> DeletionRecord:
    """Return a whole record. Raises DamagedNodeError."""
    node: _Json = znodes.decode_json(path, data, _Json)
    if node.state not in (*DEAD_STATES, UNDELETING, LIVE, FOUND):
        raise DamagedNodeError(f"{path}: unknown state {node.state!r}")
    return DeletionRecord(
        node.topic,
        znodes.parse_topic_id(path, node.id),
        node.state,
        node.created_ms,
        node.deleted_ms,
        node.deleted_by,
        node.remove_after_ms,
        node.partitions,
        node.config,
        node.leader_epoch_max,
        node.offsets,
        node.how,
        node.ends,
        node.lineage,
        None if node.successor is None else znodes.parse_topic_id(path, node.successor),
        node.restore_as,
        node.restored_by,
        node.restored_ms,
        None if node.offsets_for is None else znodes.parse_topic_id(path, node.offsets_for),
        node.by_order,
        node.isr,
        node.missing,
        node.closed,
        node.outcomes,
        node.departed,
        pieces,
        node.unregistered,
        node.offsets_given,
        node.delay_max_ms,
    )


def decode_deletion_head(path: str, data: bytes) -> DeletionHead:
    """Return state and name of a record, from its own znode only. Raises DamagedNodeError."""
    head: DeletionHead = znodes.decode_json(path, data, DeletionHead)
    return head


def read_deletions(admin: Mapping[str, Node]) -> tuple[dict[Uuid, DeletionRecord], list[str]]:
    """Return all records below /admin, and an error message for each damaged record."""
    found: dict[Uuid, DeletionRecord] = {}
    problems: list[str] = []
    prefix = len(znodes.DELETED_TOPICS) + 1
    for path, node in admin.items():
        if not path.startswith(znodes.DELETED_TOPICS + "/") or "/" in path[prefix:]:
            continue
        try:
            if decode_deletion_head(path, node.data).state == PREPARED:
                continue
            record = _assembled(path, node.data, admin)
        except DamagedNodeError as problem:
            problems.append(str(problem))
            continue
        found[record.topic_id] = record
    return found, problems


def _assembled(path: str, data: bytes, admin: Mapping[str, Node]) -> DeletionRecord:
    head = decode_deletion_head(path, data)
    if not head.pieces:
        return decode_deletion(path, data)
    pieces = [admin.get(f"{path}/{number}") for number in range(head.pieces)]
    if any(piece is None for piece in pieces):
        raise DamagedNodeError(f"{path}: some of its {head.pieces} parts are missing")
    whole = b"".join(piece.data for piece in pieces if piece is not None)
    bulk = znodes.decode_json(path, whole, dict[str, msgspec.Raw])
    if "state" in bulk:
        # An older version of pybroker stored all fields in the pieces.
        return decode_deletion(path, whole, head.pieces)
    own = znodes.decode_json(path, data, dict[str, msgspec.Raw])
    return decode_deletion(path, msgspec.json.encode({**own, **bulk}), head.pieces)


def forget_prepared(admin: Mapping[str, Node]) -> list[Operation]:
    """Return the operations that remove records of deletions which were prepared but not decided."""
    operations: list[Operation] = []
    prefix = len(znodes.DELETED_TOPICS) + 1
    prepared = set()
    for path, node in admin.items():
        if path.startswith(znodes.DELETED_TOPICS + "/") and "/" not in path[prefix:]:
            try:
                if decode_deletion_head(path, node.data).state == PREPARED:
                    prepared.add(path)
            except DamagedNodeError:
                continue
    operations += [Delete(path) for path in admin if path.rsplit("/", 1)[0] in prepared]
    return operations + [Delete(path) for path in sorted(prepared)]


def write_operations(before: DeletionRecord | None, record: DeletionRecord) -> tuple[DeletionRecord, list[Operation]]:
    """Return the record with its number of pieces, and the operations that create or replace its znodes."""
    path, data = znodes.deletion_path(record.topic_id), record.encode()
    had = 0 if before is None else before.pieces
    if before is not None and had and all(getattr(before, name) == getattr(record, name) for name in BULK):
        return msgspec.structs.replace(record, pieces=had), [Set(path, record.encode_head(had))]
    pieces = [] if len(data) <= PIECE_BYTES_MAX else _pieces(record)
    if pieces:
        data = record.encode_head(len(pieces))
    operations: list[Operation] = [Create(path, data) if before is None else Set(path, data)]
    for number, piece in enumerate(pieces):
        at = f"{path}/{number}"
        operations.append(Set(at, piece) if number < had else Create(at, piece))
    operations += [Delete(f"{path}/{number}") for number in range(len(pieces), had)]
    return msgspec.structs.replace(record, pieces=len(pieces)), operations


def prepare_operations(record: DeletionRecord) -> tuple[DeletionRecord, list[list[Operation]], Operation]:
    """Return a new record, the operations that write it, and the operation that makes it valid. These two may be
    written in different multis."""
    path, pieces = znodes.deletion_path(record.topic_id), _pieces(record)
    head = msgspec.json.encode({"version": 1, "state": PREPARED, "topic": record.topic, "pieces": len(pieces)})
    steps: list[list[Operation]] = [[Create(path, head)]]
    steps += [[Create(f"{path}/{number}", piece)] for number, piece in enumerate(pieces)]
    decided = msgspec.structs.replace(record, pieces=len(pieces))
    return decided, steps, Set(path, record.encode_head(len(pieces)))


def _pieces(record: DeletionRecord) -> list[bytes]:
    bulk = record.encode_bulk()
    return [bulk[at : at + PIECE_BYTES_MAX] for at in range(0, len(bulk), PIECE_BYTES_MAX)]


def forget_operations(record: DeletionRecord) -> list[Operation]:
    """Return the operations that remove a record's znodes."""
    path = znodes.deletion_path(record.topic_id)
    return [*(Delete(f"{path}/{number}") for number in range(record.pieces)), Delete(path)]
