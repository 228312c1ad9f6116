"""Python's view of the native core. Only `pybroker.native` and `pybroker.native_quorum` import it.

Threads: every method may be called from any thread. Methods marked *blocking* access the disk with the GIL released;
the event loop calls them through an executor. All times are milliseconds since the Unix epoch, all sizes bytes. Error
codes are Kafka's (0 = none)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, final, overload

# ----------------------------------------------------------------------------------------------------------
# Exceptions

class NativeError(Exception):
    """An error outside the program: `args` is (code, sentence), where code is Kafka's error code."""

    code: int
    message: str

class LogDirError(NativeError):
    """A log directory cannot be used: it is in use by another broker, belongs to another cluster or broker, or is
    unreadable."""

class ListenerError(NativeError):
    """A listener cannot be opened: port in use, address not local, unknown security protocol."""

class CodecError(ValueError):
    """The bytes are not a message of that key and version, or the version cannot represent the message."""

# ----------------------------------------------------------------------------------------------------------
# Identity

@final
class Uuid:
    """A 128-bit id (KIP-516). Frozen; ordered by its bytes; `str()` is 22 characters of url-safe base64."""

    ZERO: ClassVar[Uuid]
    METADATA: ClassVar[Uuid]
    def __new__(cls, most_significant_bits: int, least_significant_bits: int) -> Uuid:
        """Create an id from Java's halves; each is taken modulo 2**64, so signed ones fit."""
    @staticmethod
    def random() -> Uuid:
        """Return a version-4 id: never ZERO or METADATA, and its text never starts with '-'."""
    @staticmethod
    def parse(text: str) -> Uuid:
        """Parse base64 (22 characters), 32 hex digits or the dashed form. Raises ValueError."""
    @staticmethod
    def from_bytes(data: bytes) -> Uuid:
        """Create an id from 16 big-endian bytes. Raises ValueError for another length."""
    @property
    def bytes(self) -> bytes: ...
    @property
    def hex(self) -> str: ...
    @property
    def most_significant_bits(self) -> int:
        """Upper half, signed as in Java."""
    @property
    def least_significant_bits(self) -> int:
        """Lower half, signed as in Java."""
    def __bool__(self) -> bool:
        """False for ZERO only."""
    def __eq__(self, other: object) -> bool: ...
    def __ne__(self, other: object) -> bool: ...
    def __lt__(self, other: Uuid) -> bool: ...
    def __le__(self, other: Uuid) -> bool: ...
    def __gt__(self, other: Uuid) -> bool: ...
    def __ge__(self, other: Uuid) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[object, ...]: ...

INTERNAL_TOPICS: frozenset[str]
"""Names of the topics that brokers use internally."""

# ----------------------------------------------------------------------------------------------------------
# # Items of the control queue

@final
class Request:
    """A request that Python answers, with exactly one call of `reply…` or `close`. Dropping it unanswered closes its
    connection."""

    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def principal(self) -> str: ...
    @property
    def sasl_authenticated(self) -> bool:
        """Whether the client has authenticated by SASL; false on listeners without SASL."""
    @property
    def by_token(self) -> bool:
        """Whether the client authenticated with a delegation token (KIP-48)."""
    @property
    def listener(self) -> str: ...
    @property
    def of_broker(self) -> bool:
        """Whether a broker sent the request, over the inter-broker listener; the message is then of that registry."""
    @property
    def client_host(self) -> str: ...
    @property
    def client_port(self) -> int: ...
    @property
    def client_software(self) -> tuple[str, str]:
        """Client software name and version as reported by the client (KIP-511); empty if not reported."""
    @property
    def connection_id(self) -> int: ...
    @property
    def message(self) -> object:
        """The decoded message: an instance of a class of `pybroker.protocol.messages`; for a large message None until
        `NativeControlQueue.decode`."""
    @property
    def elements(self) -> int:
        """Number of elements in all arrays; 0 for a request from a broker, and for one with fewer than 1,000."""
    @property
    def timed(self) -> bool:
        """Whether the client has a request quota, for which `spent` counts time."""
    def spent(self, nanoseconds: int) -> None:
        """Count nanoseconds that the control plane spent on the request."""
    @property
    def cancelled(self) -> bool:
        """Whether the connection is closed, so that a response would be lost."""
    def waits(self) -> None:
        """Record that the handler starts to wait; the time after it counts as Kafka's RemoteTimeMs."""
    def reply(self, message: object, elements_max: int = ...) -> bool:
        """Encode the response for `api_version` and send it. If it has more than `elements_max` elements, send nothing
        and return False. Raises CodecError if it does not fit the version (the request can still be answered),
        RuntimeError if the request was already answered."""
    def reply_large(self, message: object) -> None:
        """Like `reply` for a response of any size, on a separate thread that releases the GIL regularly."""
    def reply_cached(self, message: object, group: str) -> CachedResponse | None:
        """Like `reply`, and cache the response: until it is invalidated, data threads repeat it over this connection
        for requests with the same bytes, if the client may READ the group at that time. Return None if the response to
        this request cannot be cached."""
    def reply_commits(
        self,
        message: object,
        shard: ShardCommits,
        topics: Sequence[CommitTopic],
        metadata_bytes_max: int,
        timeout_ms: int,
        before: CommitLease | None,
    ) -> CommitLease | None:
        """Like `reply` for an OffsetCommit, and delegate the member's next commits on this connection to the data
        threads, until the delegation is revoked. It covers `topics`, those of `before` if that is still valid, and
        metadata of at most `metadata_bytes_max`; the client needs READ on group and topics at the time of each commit.
        A commit that is not on disk after `timeout_ms` is answered with COORDINATOR_NOT_AVAILABLE. Return None if
        commits of this connection or version cannot be delegated."""
    def reply_authenticated(
        self, message: object, principal: str, by_token: bool, session_lifetime_ms: int | None
    ) -> None:
        """Send the response of a successful authentication: from then on the connection belongs to `principal`."""
    def reply_and_close(self, message: object) -> None:
        """Like `reply`, then close the connection."""
    def close(self) -> None:
        """Close the connection. Does nothing if the request was already answered."""

@final
class Completion:
    """Completion of an append that `NativePartitions.append` started: it is committed or has failed."""

    @property
    def token(self) -> int: ...
    @property
    def error_code(self) -> int: ...
    @property
    def base_offset(self) -> int:
        """Offset of its first record; -1 on error."""
    @property
    def log_append_time(self) -> int:
        """Milliseconds; -1 unless the topic stamps LogAppendTime."""

@final
class IsrMember:
    """A replica in a proposed ISR."""

    @property
    def broker_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int:
        """Broker epoch known to the leader; -1: unknown."""

@final
class IsrProposal:
    """An ISR change that a leader on this broker proposes to the controller (KIP-497). Call `NativeIsr.written` or
    `.refused` with the controller's result; until then the partition proposes nothing else, and commits only records
    that all replicas of both the old and the proposed ISR have."""

    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> list[IsrMember]: ...
    @property
    def version(self) -> int:
        """Version of the state that the proposal replaces."""

@final
class LogDirsFailed:
    """All log directories have failed: the broker must halt."""

    @property
    def reason(self) -> str: ...

@final
class ConnectionGone:
    """The connection of a share group member has closed, after its last request was answered."""

    @property
    def connection_id(self) -> int: ...

@final
class ReplicasOffline:
    """Partitions that can no longer be served because their log directory has failed."""

    @property
    def partitions(self) -> list[tuple[Uuid, int]]:
        """Topic id and index of each."""

# ----------------------------------------------------------------------------------------------------------
# # Orders and their parts

@final
class PartitionOrder:
    """One partition of a LeaderAndIsr request, already checked for controller and broker epoch."""

    def __new__(
        cls,
        *,
        topic_id: Uuid,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        isr: Sequence[int],
        version: int,
        replicas: Sequence[int],
        is_new: bool,
        config: dict[str, str],
        start_offset: int = 0,
    ) -> PartitionOrder:
        """`config`: all resolved topic settings under Kafka's names (pass the same dict object for all partitions of a
        topic: it is parsed once). `version`: version of the partition's state at the controller. `is_new`: the
        controller creates the partition now. Otherwise, while a log directory is offline, a missing partition directory
        is not created in another one. `start_offset`: start offset of a log that is created."""
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> list[int]: ...
    @property
    def version(self) -> int: ...
    @property
    def replicas(self) -> list[int]: ...
    @property
    def is_new(self) -> bool: ...
    @property
    def config(self) -> dict[str, str]: ...
    @property
    def start_offset(self) -> int: ...

@final
class CommitLease:
    """Delegation of a member's commits to the data threads. Native code revokes it on any change of metadata, features
    or settings, and when the shard revokes all."""

    def invalidate(self) -> None:
        """Revoke the delegation. On return no commit uses it any more, and earlier ones are in the log."""
    def idle_ms(self) -> int:
        """Milliseconds since the last commit under the delegation, also after it is revoked."""

@final
class CommitTopic:
    """A topic that a member may commit offsets for."""

    def __new__(cls, topic_id: Uuid, name: str, partitions: int, first_epoch: int) -> CommitTopic:
        """`first_epoch`: leader epochs from this one on belong to this incarnation of the topic."""
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def first_epoch(self) -> int: ...

@final
class MemberCommit:
    """An offset that a data thread committed."""

    @property
    def group(self) -> str: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def metadata(self) -> str: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def log_offset(self) -> int:
        """Offset of its record; before the record is on disk, its position in its batch."""

@final
class ShardCommits:
    """Delegated commits of one partition of the offsets topic, for one leader epoch."""

    def __new__(cls, topic_id: Uuid, partition: int, leader_epoch: int) -> ShardCommits: ...
    def revoke_all(self) -> None:
        """Revoke all delegations. On return none is valid any more, and commits under them are in the log."""
    def close(self) -> None:
        """Revoke all delegations, and prevent new ones."""
    def take(self) -> list[MemberCommit]:
        """Return the latest commit of each partition since the last call."""
    def take_count(self) -> int:
        """Return the number of offsets committed since the last call."""
    def in_flight(self) -> list[MemberCommit]:
        """Return the commits that are being written to disk."""
    def drop_group(self, group: str) -> None:
        """Discard all commits of a deleted group, also those being written."""
    def drop_topic(self, topic_id: Uuid) -> None:
        """Discard all commits for a deleted topic, also those being written."""

@final
class CachedResponse:
    """A cached response that data threads repeat. Native code invalidates it on any change of metadata, features or
    settings."""

    def invalidate(self) -> None:
        """Invalidate the response. On return it is not sent any more."""
    def idle_ms(self) -> int:
        """Milliseconds since the last request that the response answered, also after it is invalidated."""

class StopOrder:
    """One partition of a StopReplica request, already checked."""

    def __new__(cls, topic_id: Uuid, partition: int, leader_epoch: int, delete: bool) -> StopOrder:
        """`delete`: move the directory to `deleting/{topic id in hex}_{partition}`; also works for partitions that are
        on disk but not hosted. `leader_epoch`: -1 none, -2 the topic is being deleted (KIP-516)."""
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def delete(self) -> bool: ...

@final
class BrokerAddress:
    """Address of another broker's inter-broker listener."""

    def __new__(cls, broker_id: int, host: str, port: int) -> BrokerAddress: ...
    @property
    def broker_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...

@final
class FollowedPartition:
    """The leader that a partition follows."""

    def __new__(cls, topic_id: Uuid, partition: int, leader: int, leader_epoch: int) -> FollowedPartition:
        """`leader`: this broker's id, or a negative number, if the partition follows no leader."""
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...

@final
class FetcherFigures:
    """Statistics of the thread that fetches from one leader, since its start."""

    @property
    def leader(self) -> int: ...
    @property
    def partitions(self) -> int:
        """Number of partitions followed from this leader."""
    @property
    def held_back(self) -> int:
        """Number of these partitions that are not fetched at the moment: after an error, or until their flush."""
    @property
    def connected(self) -> bool: ...
    @property
    def requests(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Size of the appended records."""
    @property
    def records(self) -> int:
        """Number of offsets that these bytes cover."""
    @property
    def lag_max(self) -> int:
        """Largest lag of one of the partitions, in offsets behind the leader's high watermark."""

@final
class LocalPartition:
    """A partition directory found by the scan at start, not opened yet."""

    @property
    def log_dir(self) -> str: ...
    @property
    def directory(self) -> str:
        """Its path."""
    @property
    def topic(self) -> str | None:
        """Name taken from the directory's name; None in the layout `topic-id`."""
    @property
    def partition(self) -> int: ...
    @property
    def topic_id(self) -> Uuid | None:
        """Id from `partition.metadata`; None if that file is missing or damaged."""
    @property
    def problem(self) -> str | None:
        """Reason why it must not be served as it is (damaged or missing `partition.metadata`, …): it is quarantined,
        never deleted."""

@final
class AdoptedDirectory:
    """A scanned directory, and the partition to assign it to."""

    def __new__(cls, directory: str, topic_id: Uuid, partition: int) -> AdoptedDirectory: ...
    @property
    def directory(self) -> Path: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partition(self) -> int: ...

@final
class PartitionEnds:
    """Start and end offsets of a hosted partition's log."""

    def __new__(cls, partition: int, log_start_offset: int, log_end_offset: int) -> PartitionEnds: ...
    @property
    def partition(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...

@final
class PartitionRole:
    """Role of this broker for a hosted partition."""

    def __new__(
        cls, partition: int, leader_epoch: int, leader: int, fenced: bool, offline: bool
    ) -> PartitionRole: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader_epoch(self) -> int:
        """-1 after the partition was stopped."""
    @property
    def leader(self) -> int:
        """The leader's broker id, this broker's own if it leads; negative: none."""
    @property
    def fenced(self) -> bool:
        """Whether appends are rejected because the topic is about to be deleted."""
    @property
    def offline(self) -> bool:
        """Whether the log directory failed or the log could not be opened."""

@final
class Lag:
    """Lag of a reader of a partition."""

    @property
    def records(self) -> int:
        """Number of offsets between its offset and the high watermark."""
    @property
    def oldest_ms(self) -> int:
        """Timestamp of the batch with the first unread record; -1 if all records are read."""

@final
class PartitionOffsets:
    """Offsets and size of a hosted partition's log."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """The last leader epoch in the log; -1: none."""
    @property
    def size_bytes(self) -> int: ...
    @property
    def lags_epoch_start(self) -> bool:
        """Whether this broker is a new leader whose high watermark has not reached the start of its leader epoch
        (KIP-207): clients may have been told a higher one."""

@final
class LogDirPartition:
    """A partition in the answer of `NativeLogDirs.describe`."""

    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def offset_lag(self) -> int: ...
    @property
    def is_future(self) -> bool:
        """Whether the replica is being moved to this directory (KIP-113)."""

@final
class LogDirInfo:
    """A log directory as DescribeLogDirs shows it."""

    @property
    def path(self) -> str: ...
    @property
    def error_code(self) -> int:
        """KAFKA_STORAGE_ERROR (56) if the directory is offline."""
    @property
    def total_bytes(self) -> int:
        """Size of its file system; -1 if unknown (KIP-827)."""
    @property
    def usable_bytes(self) -> int: ...
    @property
    def partitions(self) -> list[LogDirPartition]: ...

@final
class LogDirRoom:
    """Disk space of an online log directory."""

    @property
    def path(self) -> str: ...
    @property
    def total_bytes(self) -> int:
        """Size of its file system; -1 if unknown."""
    @property
    def usable_bytes(self) -> int: ...
    @property
    def full_refusals(self) -> int:
        """Number of writes rejected since the start because the disk was full."""

@final
class StagedDirectory:
    """A partition directory in `deleting/`, which waits for its removal."""

    @property
    def path(self) -> str: ...
    @property
    def log_dir(self) -> str: ...
    @property
    def topic_id(self) -> Uuid | None:
        """None if its name and its `partition.metadata` disagree; an operator must decide."""
    @property
    def partition(self) -> int:
        """-1 if `topic_id` is None."""
    @property
    def directory(self) -> str | None:
        """Name of its directory before it was staged."""
    @property
    def deadline_ms(self) -> int | None:
        """Time from which it may be purged: time of staging + `delete.topic.delay.ms`. None: unknown, an operator must
        decide."""
    @property
    def purging(self) -> bool:
        """Whether its removal has started, after which it cannot be restored."""

@final
class StoredRecord:
    """A record of a local log."""

    def __new__(
        cls,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        producer_id: int,
        committed: bool | None,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> StoredRecord: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def producer_id(self) -> int:
        """Producer id of the transaction of this record or marker; -1 outside of transactions."""
    @property
    def committed(self) -> bool | None:
        """For a marker: whether it commits the transaction. None for records."""
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """(name, value) in their order."""

@final
class Pattern:
    """A regular expression that must match the whole text; takes time linear in the text's length."""

    def __new__(cls, pattern: str) -> Pattern:
        """Compile the pattern. Raises ValueError with the reason if it is invalid."""
    def matches(self, text: str) -> bool: ...

@final
class ActiveProducer:
    """A producer in the producer state of a partition."""

    def __new__(
        cls,
        producer_id: int,
        producer_epoch: int,
        last_sequence: int,
        last_timestamp_ms: int,
        coordinator_epoch: int,
        transaction_start: int,
    ) -> ActiveProducer: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def last_sequence(self) -> int:
        """-1 if none is known."""
    @property
    def last_timestamp_ms(self) -> int: ...
    @property
    def coordinator_epoch(self) -> int:
        """Epoch of the coordinator that wrote its last marker; -1 if there is none."""
    @property
    def transaction_start(self) -> int:
        """First offset of its open transaction; -1 if none is open."""
    def __eq__(self, other: object) -> bool: ...

@final
class TransactionQuestion:
    """A question of a leader on this broker: are partitions part of a transaction? It is asked before the transaction's
    first records are appended to them (KIP-890). If it is dropped unanswered, the client gets a retriable error."""

    @property
    def transactional_id(self) -> str: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def adds(self) -> bool:
        """Whether partitions that are missing from the transaction are added to it."""
    @property
    def abortable(self) -> bool:
        """Whether the client understands TRANSACTION_ABORTABLE."""
    @property
    def partitions(self) -> list[tuple[Uuid, int]]:
        """(topic id, partition)"""
    def answer(self, codes: Sequence[int]) -> None:
        """Answer with an error code for each partition. Further answers are ignored."""

@final
class FetchedBatches:
    """Result of one read for a share group. The bytes stay in the native core."""

    @property
    def batches(self) -> list[tuple[int, int]]:
        """(first offset, last offset) of each batch with records for the group, ascending: without markers and aborted
        transactions."""
    @property
    def next_offset(self) -> int:
        """Offset to continue from; equal to the requested offset if nothing can be read."""
    @property
    def bound(self) -> int:
        """End of the readable offsets."""
    @property
    def size_bytes(self) -> int:
        """Size of `batches`."""
    def records(self, first: int, last: int) -> RecordBytes | None:
        """Return the batches that have offsets from `first` to `last`, and the bytes between them."""

@final
class RecordBytes:
    """Record batches, to be copied into a response."""

    def __len__(self) -> int: ...

@final
class RecordsWatch:
    """A registration for more records of a partition; dropping it cancels the registration."""

    @property
    def token(self) -> int:
        """Token of its Completion."""
    def cancel(self) -> None:
        """Cancel the registration."""

@final
class StoredRecords:
    """Result of one read of a local log."""

    def __new__(cls, records: Sequence[StoredRecord], next_offset: int) -> StoredRecords: ...
    @property
    def records(self) -> list[StoredRecord]: ...
    @property
    def next_offset(self) -> int:
        """Offset to continue from; equal to the requested offset at the end of the log."""

# ----------------------------------------------------------------------------------------------------------
# Listeners

@final
class ListenerConfig:
    """A listener to open. An empty host means all addresses, port 0 a free port."""

    def __new__(
        cls, name: str, host: str, port: int, security_protocol: str, between_brokers: bool
    ) -> ListenerConfig: ...
    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def security_protocol(self) -> str: ...
    @property
    def between_brokers(self) -> bool:
        """Whether it is an inter-broker listener, which serves no clients."""

@final
class TlsStore:
    """A keystore or truststore that is not decoded yet. `prefix`: common prefix of its settings `type`, `location` and
    `password`; `place`: its name in errors; `kind`: PEM, JKS or PKCS12, or empty to detect the format. Its methods
    return PEM, with an unencrypted key. They raise ValueError with one line that names the setting."""

    def __new__(cls, prefix: str, place: str, kind: str, content: bytes, password: str | None) -> TlsStore: ...
    def identity(self, key_password: str | None) -> bytes:
        """Return the private key and its certificates."""

    def trusted(self) -> bytes:
        """Return the trusted certificates."""

@final
class ListenerTls:
    """TLS material of a listener. All values except the keywords are PEM; the key is not encrypted. `revoked`:
    certificate revocation lists; None: revocation is not checked."""

    def __new__(
        cls,
        certificates: bytes,
        key: bytes,
        trusted: bytes,
        revoked: bytes | None,
        client_auth: str,
        protocols: Sequence[str],
        cipher_suites: Sequence[str],
        principal_rules: str,
    ) -> ListenerTls: ...
    def check(self) -> None:
        """Check whether a listener could use the material, without changing anything. Raises ListenerError."""

@final
class Endpoint:
    """Address of a broker's listener."""

    def __new__(cls, listener: str, host: str, port: int) -> Endpoint: ...
    @property
    def listener(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...

# ----------------------------------------------------------------------------------------------------------
# Access control

@final
class AclEntry:
    """An access control entry; types and operations are Kafka's codes."""

    def __new__(
        cls, resource_type: int, prefixed: bool, name: str, principal: str, host: str, operation: int, allow: bool
    ) -> AclEntry:
        """`prefixed`: `name` is a prefix. `allow`: True for an allow entry, False for a deny entry."""
    @property
    def resource_type(self) -> int: ...
    @property
    def prefixed(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def operation(self) -> int: ...
    @property
    def allow(self) -> bool: ...

# ----------------------------------------------------------------------------------------------------------
# Metadata published to the data plane

@final
class BrokerMetadata:
    """A live broker."""

    def __new__(cls, id: int, rack: str | None, endpoints: Sequence[Endpoint]) -> BrokerMetadata: ...
    @property
    def id(self) -> int: ...
    @property
    def rack(self) -> str | None: ...
    @property
    def endpoints(self) -> list[Endpoint]: ...

@final
class PartitionMetadata:
    """A partition as shown to clients."""

    def __new__(
        cls,
        partition: int,
        leader: int,
        leader_epoch: int,
        isr: Sequence[int],
        replicas: Sequence[int],
        offline: Sequence[int],
    ) -> PartitionMetadata: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader(self) -> int:
        """-1 if there is none."""
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> list[int]: ...
    @property
    def replicas(self) -> list[int]: ...
    @property
    def offline(self) -> list[int]:
        """Members of `replicas` on failed disks or dead brokers."""

@final
class TopicMetadata:
    """A topic with all of its partitions."""

    def __new__(
        cls, topic_id: Uuid, name: str, internal: bool, partitions: Sequence[PartitionMetadata]
    ) -> TopicMetadata: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def name(self) -> str: ...
    @property
    def internal(self) -> bool: ...
    @property
    def partitions(self) -> list[PartitionMetadata]: ...

@final
class MetadataDelta:
    """A change of the metadata. Removals are applied before changes, so one delta may give a name to a new topic."""

    def __new__(
        cls,
        *,
        brokers: Sequence[BrokerMetadata] | None = None,
        controller_id: int | None = None,
        topics_changed: Sequence[TopicMetadata] = (),
        topics_removed: Sequence[Uuid] = (),
    ) -> MetadataDelta:
        """`brokers`: all live brokers, None = unchanged. `controller_id`: -1 = unknown, None = unchanged."""
    @property
    def brokers(self) -> list[BrokerMetadata] | None: ...
    @property
    def controller_id(self) -> int | None: ...
    @property
    def topics_changed(self) -> list[TopicMetadata]: ...
    @property
    def topics_removed(self) -> list[Uuid]: ...

# ----------------------------------------------------------------------------------------------------------
# Staged ingests (docs/staged-ingest.md)

IngestKey = tuple[Uuid, str, int]
"""(topic id, ingest id, batch id)"""

@final
class ListedAttempt:
    """Records of one attempt for one partition, as a commit request lists them."""

    def __new__(
        cls, partition: int, writer: int, attempt: int, rows: int, bytes: int, checksum: int
    ) -> ListedAttempt: ...
    @property
    def partition(self) -> int: ...
    @property
    def writer(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def checksum(self) -> int:
        """CRC-32C over the checksums of the attempt's batches."""

@final
class StagedPartition:
    """Staged records of one partition."""

    def __new__(cls, partition: int, rows: int, bytes: int) -> StagedPartition: ...
    @property
    def partition(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...

@final
class AttachedPartition:
    """Position of a commit's records in one partition."""

    def __new__(cls, base_offset: int, end_offset: int, repeated: bool, committed: bool) -> AttachedPartition: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int:
        """Offset after the last record."""
    @property
    def repeated(self) -> bool:
        """Whether an earlier request had already attached the records."""
    @property
    def committed(self) -> bool:
        """Whether the records are below the high watermark: every in-sync replica has them."""

@final
class IngestPreparation:
    """Parameters for preparing a commit."""

    def __new__(cls, plan: int, leads: bool, holders: Mapping[int, Sequence[int]]) -> IngestPreparation: ...
    @property
    def plan(self) -> int:
        """Number of the plan; 0 for a single broker."""
    @property
    def leads(self) -> bool:
        """Whether this broker leads the listed partitions."""
    @property
    def holders(self) -> Mapping[int, Sequence[int]]:
        """By partition, the brokers that must have the records on disk; empty for a single broker."""

@final
class OpenIngest:
    """An ingest that accepts appends."""

    @property
    def key(self) -> IngestKey: ...
    @property
    def epoch(self) -> int: ...
    @property
    def touched_ms(self) -> int:
        """Time of its last append, or of its begin."""
    @property
    def writers(self) -> int:
        """Number of attempts that have staged records."""
    @property
    def partitions(self) -> list[StagedPartition]:
        """Totals over all attempts."""

# ----------------------------------------------------------------------------------------------------------
# The broker

Setting = int | float | str | bool | None

@final
class NativeBroker:
    """The data plane of one broker. Start order: constructor, log_dirs.start, listeners.open, partitions.apply,
    metadata.publish, listeners.start_accepting; with several brokers also fetchers.start after log_dirs.start, and
    fetchers.set after partitions.apply. Stop order: listeners.stop_accepting, shutdown."""

    def __new__(
        cls, *, broker_id: int, cluster_id: str, log_dirs: list[str], settings: dict[str, Setting]
    ) -> NativeBroker:
        """`settings`: resolved broker settings under Kafka's names; native code ignores unknown ones.
        Raises ValueError naming a setting of a wrong type."""
    @property
    def log_dirs(self) -> NativeLogDirs: ...
    @property
    def partitions(self) -> NativePartitions: ...
    @property
    def ingests(self) -> NativeIngests: ...
    @property
    def isr(self) -> NativeIsr: ...
    @property
    def fetchers(self) -> NativeFetchers: ...
    @property
    def metadata(self) -> NativeMetadata: ...
    @property
    def authorizer(self) -> NativeAuthorizer: ...
    @property
    def quotas(self) -> NativeQuotas: ...
    @property
    def listeners(self) -> NativeListeners: ...
    @property
    def control_queue(self) -> NativeControlQueue: ...
    def set_settings(self, settings: dict[str, Setting]) -> None:
        """Change dynamic broker settings; native code ignores unknown ones. Raises ValueError."""
    @staticmethod
    def check_settings(settings: dict[str, Setting]) -> None:
        """Raise ValueError if `set_settings` would reject the settings."""
    def collect_metrics(self, families: MetricFamilies) -> None:
        """*Blocking.* Append the metrics of native code; takes milliseconds for each thousand partitions."""
    def take_slow_requests(self) -> list[SlowRequest]:
        """Return the requests since the last call that took `slow.request.log.ms` or longer: the oldest first, at most
        1,000. The first call returns none."""
    def shutdown(self, timeout_ms: int) -> None:
        """*Blocking.* Finish produces, close connections, flush, and write snapshots, checkpoints and the
        clean-shutdown marker. After `timeout_ms` no marker is written, and the next start recovers. Idempotent. Raises
        NativeError if data could not be written to disk."""

@final
class MetricFamilies:
    """The metric families of one scrape, in order."""

    def __init__(self) -> None: ...
    def add(
        self, name: str, kind: str, help: str, labels: dict[str, str], value: float, suffix: str = ""
    ) -> None:
        """Append a sample to the last family, or to a new one if the last has another name."""
    def text(self) -> str:
        """Return Prometheus text format 0.0.4."""
    def take(self) -> list[MetricFamily]:
        """Return the families and leave none."""

@final
class MetricFamily:
    """The samples of one metric."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str:
        """counter, gauge, histogram or summary"""
    @property
    def help(self) -> str: ...
    def __len__(self) -> int: ...
    def samples(self, begin: int, end: int) -> list[MetricSample]:
        """Return the samples with these indexes."""

@final
class MetricSample:
    @property
    def suffix(self) -> str:
        """The rest of its name after the family's name, such as `_sum`."""
    @property
    def labels(self) -> dict[str, str]: ...
    @property
    def value(self) -> float: ...

@final
class SlowRequest:
    """A request that took `slow.request.log.ms` or longer."""

    @property
    def api(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def received_ns(self) -> int:
        """Time at which its last byte was received, in nanoseconds since 1970."""
    @property
    def stages_us(self) -> list[int]:
        """Time per stage: queue, local, remote, response queue, response send."""
    @property
    def client_id(self) -> str: ...
    @property
    def principal(self) -> str: ...
    @property
    def listener(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def control_plane(self) -> bool:
        """Whether Python answered it."""

@final
class NativeLogDirs:
    """The log directories of one broker."""

    def start(self) -> list[LocalPartition]:
        """*Blocking.* Lock each directory, check or write meta.properties, and scan it. Raises LogDirError if a
        directory is in use or belongs to another cluster or broker, or if none is usable; a directory that fails with
        an I/O error while others work is offline from the start. Methods of other objects that need the directories
        raise RuntimeError until `start` was called."""
    def describe(self) -> list[LogDirInfo]:
        """*Blocking.* Return all log directories with their partitions."""
    def rooms(self) -> list[LogDirRoom]:
        """*Blocking.* Return the disk space of each online log directory."""
    def adopt(self, directories: Sequence[AdoptedDirectory]) -> list[str | None]:
        """*Blocking.* Write `partition.metadata` durably into directories that the scan found without it; after that
        they wait for their order. Return None or the problem for each directory."""
    def set_aside(self, directories: Sequence[str]) -> None:
        """*Blocking.* Mark scanned directories as untrusted: they are never opened, moved or removed."""
    def move_partition(self, topic_id: Uuid, partition: int, log_dir: str) -> int:
        """Start to move a partition to another log directory, in the background. Return the error code."""
    def stage(self, directory: str) -> str:
        """*Blocking.* Move a scanned directory that has a topic id and is not hosted to `deleting/`; return its new
        path. Raises NativeError, ValueError."""
    def staged(self) -> list[StagedDirectory]:
        """*Blocking.* Return the directories in `deleting/` of all online log directories. Raises NativeError."""
    def purge(self, path: str) -> int:
        """*Blocking.* Remove a staged directory permanently; return the bytes freed. Raises NativeError, ValueError for
        a path that is not in `deleting/`."""

@final
class NativePartitions:
    """The partitions hosted by one broker."""

    def apply(self, orders: Sequence[PartitionOrder]) -> list[int]:
        """*Blocking.* Create or open the logs of all orders in parallel, and start to lead or follow. Return an error
        code for each order. Raises ValueError naming a topic setting that cannot be parsed."""
    def stop(self, orders: Sequence[StopOrder]) -> list[int]:
        """*Blocking.* Stop partitions, and answer their waiting produces and fetches. Return an error code for each
        order."""
    def restore(self, topic_id: Uuid, topic: str, partitions: Sequence[int]) -> list[int]:
        """*Blocking.* Move partitions from `deleting/` back under this name, without serving them. Return an error code
        for each; a partition that is already back is a success."""
    def set_fenced(self, topic_id: Uuid, fenced: bool) -> list[PartitionEnds]:
        """*Blocking, shortly.* Make the partitions of a topic reject appends (NOT_LEADER_OR_FOLLOWER), or accept them
        again. Return the start and end offsets of each hosted partition, which do not change while it is fenced."""
    def roles(self, topic_id: Uuid) -> list[PartitionRole]:
        """Return the roles of a topic's partitions that are hosted here."""
    @staticmethod
    def check_topic_config(config: dict[str, str]) -> None:
        """Raise ValueError if `set_topic_config` would reject the settings."""
    def set_topic_config(self, topic_id: Uuid, config: dict[str, str]) -> None:
        """Set all resolved settings of a topic, under Kafka's names. Raises ValueError naming a setting that cannot be
        parsed."""
    def offsets(self, topic_id: Uuid, partition: int) -> PartitionOffsets | None:
        """Return the offsets of a partition; None if it is not hosted here."""
    @overload
    def append(
        self,
        topic_id: Uuid,
        partition: int,
        records: Sequence[tuple[bytes | None, bytes | None]],
        timestamp_ms: int,
        leader_epoch: int = -1,
        producer: tuple[int, int] | None = None,
        *,
        at_once: Literal[False] = False,
    ) -> int:
        """Append (key, value) records as one batch to a local leader with acks=all; return a token immediately. `drain`
        returns the Completion with that token, also for errors (NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE,
        KAFKA_STORAGE_ERROR, …); in commit mode after the flush. `leader_epoch`: epoch of the state that the writer's
        decision is based on; a different current epoch fails with FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, -1 skips
        the check. `producer`: (id, epoch) of the producer in whose transaction the records are. Raises ValueError if
        there are no records."""
    @overload
    def append(
        self,
        topic_id: Uuid,
        partition: int,
        records: Sequence[tuple[bytes | None, bytes | None]],
        timestamp_ms: int,
        leader_epoch: int = -1,
        producer: tuple[int, int] | None = None,
        *,
        at_once: Literal[True],
    ) -> Completion | int:
        """Like the other overload, but return the Completion itself, instead of through `drain`, if the result is known
        immediately: the append failed, or need not wait for a flush or for other replicas."""
    def append_batch(self, topic_id: Uuid, partition: int, batch: bytes) -> int:
        """Append a finished batch to a local leader, as Produce with acks=all does; return a token as `append` does."""
    def append_marker(
        self, topic_id: Uuid, partition: int, marker: tuple[int, int, int], committed: bool, timestamp_ms: int,
        raised: bool = False,
    ) -> Completion | int:
        """Append a transaction marker to a local leader's partition with acks=all; return a token or a Completion as
        `append` with `at_once` does. `marker`: (producer id, producer epoch, coordinator epoch); epochs older than
        those of the partition fail with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED. `raised`: the
        transaction is of version 2, so its records have a lower producer epoch."""
    def producers(self, topic_id: Uuid, partition: int) -> list[ActiveProducer]:
        """Return the producers in the producer state of a local leader. Raises NativeError."""
    def read_records(self, topic_id: Uuid, partition: int, offset: int, max_bytes: int) -> StoredRecords:
        """*Blocking.* Read records, decompressed, from `offset` to the log end, including transaction markers. Returns
        at least one batch, if there is one. An offset below the log start counts as the log start. Raises
        NativeError."""
    def lag(self, topic_id: Uuid, partition: int, offset: int) -> Lag | None:
        """*Blocking.* Return the lag of a reader at `offset`, as far as this broker knows it. Return None if the
        partition is not hosted here. Raises ValueError, NativeError."""
    def fetch(
        self, partition: tuple[Uuid, int], offset: int, limits: tuple[int, int], read_committed: bool, wait: bool
    ) -> FetchedBatches | None:
        """*Blocking if `wait`.* Read whole batches for a share group, starting with the batch that contains `offset`,
        up to the high watermark or the last stable offset, until they cover limits[1] offsets or have limits[0] bytes.
        Returns at least one batch, if there is one. Return None if the batches are not in the page cache and `wait` is
        false. Raises NativeError."""
    def watch(self, topic_id: Uuid, partition: int, bound: int, read_committed: bool) -> RecordsWatch:
        """Register for more records: one Completion with the registration's token is queued when offsets above `bound`
        become readable, or when the partition stops."""
    def offset_for_timestamp(self, topic_id: Uuid, partition: int, timestamp_ms: int, read_committed: bool) -> int:
        """*Blocking.* Return the first offset whose record has at least this timestamp; -1 if there is none. Raises
        NativeError."""
    def delete_records(self, topic_id: Uuid, partition: int, offset: int, flush_wait_s: float = 0.0) -> int:
        """*Blocking.* Raise the log start to `offset` (-1 = high watermark); return the low watermark. Waits at most
        `flush_wait_s` for a running flush to raise the high watermark above the offset. Raises NativeError."""

@final
class NativeIngests:
    """Staged ingests (docs/staged-ingest.md). `directory`: name of the directory of an ingest's files, made of letters,
    digits, "-" and "_"; each epoch has its own. Methods raise NativeError with a protocol error code."""

    def open(self, key: IngestKey, directory: str, epoch: int, config: dict[str, str]) -> None:
        """*Blocking.* Accept appends, checked against `config`; drop an older epoch with its staged records."""
    def prepare(
        self, key: IngestKey, epoch: int, preparation: IngestPreparation, listed: Sequence[ListedAttempt]
    ) -> list[StagedPartition]:
        """*Blocking.* Prepare a commit, before its decision: stop accepting appends, compare the listed with the staged
        records, and flush the staged ones. A leader also sends missing records to the brokers that must have them."""
    def reopen(self, key: IngestKey, epoch: int) -> None:
        """Accept appends again, because the commit was not decided."""
    def attach(self, topic_id: Uuid, partition: int, directory: str, plan: int, append_time: bool) -> AttachedPartition:
        """*Blocking.* Attach the records of a decided commit with this plan to the partition. Idempotent, also after a
        change of the leader. `append_time`: stamp the records with the current time."""
    def bring(self, topic_id: Uuid, partition: int, brokers: Sequence[int]) -> None:
        """*Blocking.* Send the staged records of a partition to brokers that are about to join the ISR."""
    def expire(self, key: IngestKey, epoch: int, before_ms: int) -> bool:
        """*Blocking.* Close the ingest if it received nothing since `before_ms`; return whether it is closed."""
    def drop(self, key: IngestKey, directory: str) -> None:
        """*Blocking.* Drop the ingest and remove its files. Does nothing if it does not exist."""
    def collect(self, keep: list[tuple[Uuid, str]]) -> int:
        """*Blocking.* Remove the files of all ingests except these (topic id, directory); return the number removed."""
    def list(self) -> list[OpenIngest]:
        """Return the open ingests."""

@final
class NativeFetchers:
    """The fetchers of one broker: for each leader a thread, without Python, that copies the records of the partitions
    that follow it. All methods except `figures` raise RuntimeError before `start` and after the shutdown."""

    def start(self, connection: dict[str, str]) -> None:
        """Start the fetchers: once, after log_dirs.start. `connection`: client settings for connections to brokers
        (security.protocol, sasl.mechanism, sasl.username, sasl.password, ssl.…). Raises ValueError."""
    def set_broker_epoch(self, broker_epoch: int) -> None:
        """Set the epoch of this broker's registration, which later requests contain (KIP-903)."""
    def set(self, brokers: Sequence[BrokerAddress], partitions: Sequence[FollowedPartition]) -> None:
        """Update the addresses of brokers and the leaders of the given partitions, after partitions.apply; other
        brokers and partitions stay unchanged. Does not block. An assignment with an older leader epoch than the current
        one is ignored."""
    def figures(self) -> list[FetcherFigures]:
        """Return the statistics of the running threads, by leader."""
    def stop(self) -> None:
        """*Blocking, for a second at most.* Stop all fetchers. Part of `shutdown`; may be called before it."""

@final
class NativeMetadata:
    """The metadata that the data plane answers from."""

    def publish(self, delta: MetadataDelta) -> int:
        """Apply a delta; deltas must arrive in order. Requests that start later see it. Return the new version."""
    def serve_quorum(self, quorum: MetadataQuorum) -> None:
        """Pass fetches of the metadata topic on the inter-broker listener to the control plane, which has this node."""
    def set_features(self, epoch: int, levels: Mapping[str, int]) -> None:
        """Replace the finalized feature levels, by name, which ApiVersions returns; 0: the feature is off. A feature
        that was never finalized has its highest level."""

@final
class NativeAuthorizer:
    """Access control entries. Both planes use the broker's instance."""

    def __new__(cls) -> NativeAuthorizer:
        """Create a separate authorizer, whose entries affect no plane."""
    @staticmethod
    def is_valid_host(host: str) -> bool:
        """Return whether a new entry may have this host: a text with a slash must be a network (KIP-1276)."""
    def publish(
        self,
        *,
        added: Sequence[AclEntry] = (),
        removed: Sequence[AclEntry] = (),
        super_users: Sequence[str] | None = None,
        allow_everyone_without_acls: bool | None = None,
    ) -> int:
        """Apply a change of the entries, removals first; changes must arrive in order. Requests that start later use
        it. The first call switches the authorizer on. Return the new version."""
    def permits(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether the current entries permit the operation; True without authorizer."""
    def permits_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Like `permits`, for any resource of the type (KIP-679)."""
    def permitted_operations(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """Return the operations that the principal may perform on the resource, as Kafka's bit field."""

@final
class ClientQuota:
    """Quotas of one entity of users and client ids. A name is None if the entity does not have that part, and empty for
    the default; a quota is None if it is not set."""

    def __new__(
        cls,
        user: str | None,
        client_id: str | None,
        producer_byte_rate: float | None,
        consumer_byte_rate: float | None,
        request_percentage: float | None,
        controller_mutation_rate: float | None,
    ) -> ClientQuota: ...
    @property
    def user(self) -> str | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def producer_byte_rate(self) -> float | None: ...
    @property
    def consumer_byte_rate(self) -> float | None: ...
    @property
    def request_percentage(self) -> float | None: ...
    @property
    def controller_mutation_rate(self) -> float | None: ...

@final
class NativeQuotas:
    """Client quotas of this broker."""

    def publish(
        self,
        *,
        clients: Sequence[ClientQuota],
        addresses: Sequence[tuple[str | None, float | None]],
        full: bool,
    ) -> None:
        """Apply a change; changes must arrive in order. Requests that start later use it. `addresses`: connections per
        second, None = unlimited; the default has None as its address. `full`: replace all quotas. Raises ValueError."""
    def bounds_mutations(self, user: str, client_id: str) -> bool:
        """Return whether a quota limits how many partitions the client creates and deletes."""
    def mutate(self, user: str, client_id: str, partitions: float, *, strict: bool) -> tuple[bool, int]:
        """Count partitions that a client creates or deletes; return whether it may, and for how many milliseconds it is
        throttled. `strict`: reject a client that has exceeded its quota, without counting."""

@final
class NativeListeners:
    """The listeners of one broker."""

    def secure(self, listener: str, tls: ListenerTls) -> None:
        """Set the TLS material of a listener for new connections; before `open`, and again at any time. Raises
        ListenerError, which names the setting, for unusable material."""
    def open(self, listeners: Sequence[ListenerConfig]) -> list[Endpoint]:
        """Bind the listeners; return the address of each, in order. Connections are not accepted yet. Raises
        ListenerError."""
    def start_accepting_brokers(self) -> None:
        """Start accepting on inter-broker listeners, which happens before clients are accepted."""
    def start_accepting(self) -> None:
        """Start accepting on all listeners that do not accept yet."""
    def stop_accepting(self) -> None:
        """Close the listening sockets. Open connections stay."""

@final
class NativeIsr:
    """The in-sync replicas of partitions led by this broker. The control queue delivers the leaders' proposals."""

    def judge(self, lag_max_ms: int) -> None:
        """*Blocking*, briefly. Check every partition led here for followers that have been behind for longer than
        `lag_max_ms`."""
    def written(self, topic_id: Uuid, partition: int, leader_epoch: int, isr: Sequence[int], version: int) -> None:
        """Report that the controller has written this ISR for that leader epoch. Ignored if the partition has changed
        since."""
    def refused(self, topic_id: Uuid, partition: int, leader_epoch: int, version: int) -> None:
        """Report that the controller rejected the proposal for that version permanently."""

@final
class NativeControlQueue:
    """The queue from the data plane to the control plane."""

    def wake_fd(self) -> int:
        """Return a file descriptor that becomes readable when the queue becomes non-empty. For `loop.add_reader`; owned
        by this object."""
    def take_answers_back(self) -> None:
        """Invalidate all cached responses of this broker."""
    def decode(self, request: Request) -> bool:
        """Decode a large request on a separate thread that releases the GIL regularly. If the request is undecodable,
        close its connection and return False."""
    def admit_line_about_client(self) -> int | None:
        """Ask whether Python may write a log line that a client caused; native lines of this kind share the rate limit.
        Return the number of lines dropped since the last permitted one, or None if this line must be dropped."""
    def drain(
        self, max_items: int = 256
    ) -> list[
        Request | Completion | IsrProposal | TransactionQuestion | ConnectionGone | ReplicasOffline | LogDirsFailed
    ]:
        """Return at most `max_items` items; requests of client sessions come before requests of administrators. Closes
        the connection of a request that cannot be decoded. Also writes native log lines to the logger
        `pybroker.native`. If the result has `max_items` items, call again, because more may wait."""

# ----------------------------------------------------------------------------------------------------------
# The metadata quorum

@final
class QuorumEndpoint:
    """An address of a node's controller listener."""

    def __new__(cls, node_id: int, listener: str, host: str, port: int) -> QuorumEndpoint: ...
    @property
    def node_id(self) -> int: ...
    @property
    def listener(self) -> str:
        """Name of the listener; "" if the message that named the address does not contain it."""
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

@final
class QuorumReplica:
    """A replica of the metadata log: a node and the directory id of its disk (KIP-853)."""

    def __new__(cls, node_id: int, directory_id: Uuid) -> QuorumReplica: ...
    @property
    def node_id(self) -> int: ...
    @property
    def directory_id(self) -> Uuid: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

@final
class QuorumReplicaStatus:
    """A replica's progress as the leader knows it."""

    @property
    def node_id(self) -> int: ...
    @property
    def directory_id(self) -> Uuid: ...
    @property
    def end_offset(self) -> int:
        """End of its log; -1 if unknown."""
    @property
    def fetched_ms(self) -> int:
        """Time of its last fetch; -1 if unknown."""
    @property
    def caught_up_ms(self) -> int:
        """The last time at which it had all records that the leader had at that time; -1 if unknown."""
    @property
    def endpoints(self) -> list[QuorumEndpoint]: ...

@final
class QuorumStatus:
    """The quorum as a node knows it."""

    @property
    def role(self) -> str:
        """Unattached, Prospective, Candidate, Leader, Follower, Resigned or Halted."""
    @property
    def epoch(self) -> int: ...
    @property
    def leader(self) -> int | None: ...
    @property
    def high_watermark(self) -> int:
        """All records below this offset are committed."""
    @property
    def log_start(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    @property
    def snapshot_end(self) -> int: ...
    @property
    def topic_id(self) -> Uuid | None:
        """The id of the metadata topic, once it is committed."""
    @property
    def voters(self) -> list[QuorumReplicaStatus]: ...
    @property
    def observers(self) -> list[QuorumReplicaStatus]:
        """Only the leader knows them."""

@final
class QuorumRequest:
    """A request to send to a node. Pass the response to `receive_response`, or report a failure to `request_failed`,
    with the same correlation."""

    @property
    def peer(self) -> int:
        """Node id, or an id from `bootstrap`."""
    @property
    def address(self) -> QuorumEndpoint | None:
        """The node's address, if the log or a message names it."""
    @property
    def correlation(self) -> int: ...
    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def body(self) -> bytes: ...

@final
class QuorumResponse:
    """The response to the request that was received with this handle."""

    @property
    def handle(self) -> int: ...
    @property
    def body(self) -> bytes: ...

@final
class SnapshotStart:
    """A snapshot replaces the image: its records follow."""

    @property
    def end_offset(self) -> int:
        """The snapshot replaces the log up to this offset."""
    @property
    def epoch(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...

@final
class SnapshotRecords:
    """Records of the snapshot."""

    @property
    def records(self) -> list[bytes]: ...

@final
class SnapshotEnd:
    """The snapshot is complete; committed batches follow."""

    @property
    def end_offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...

@final
class CommittedRecords:
    """A committed batch. A batch of the quorum's control records comes without records."""

    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def epoch(self) -> int:
        """Epoch of the leader that wrote the batch."""
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def records(self) -> list[bytes]: ...

@final
class ProposalOutcome:
    """The outcome of a proposal or of a voter change."""

    @property
    def proposal(self) -> int: ...
    @property
    def error_code(self) -> int:
        """NONE: the proposal is committed, and its records were delivered before this outcome. NOT_CONTROLLER,
        REQUEST_TIMED_OUT (try again), DUPLICATE_VOTER, VOTER_NOT_FOUND, INVALID_REQUEST (the last voter)."""
    @property
    def maybe_committed(self) -> bool:
        """With NOT_CONTROLLER: the records were appended, and may still be committed."""
    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...

@final
class QuorumLeader:
    """The epoch or its leader changed. A node that leads gets this object after all records before its epoch."""

    @property
    def epoch(self) -> int: ...
    @property
    def leader(self) -> int | None: ...

@final
class QuorumVoters:
    """The voters changed."""

    @property
    def voters(self) -> list[QuorumReplica]: ...
    @property
    def endpoints(self) -> list[QuorumEndpoint]: ...

@final
class QuorumWarning:
    """A line for the broker's log: about a repair at the start, or about an invalid message."""

    @property
    def message(self) -> str: ...

@final
class QuorumLogSummary:
    """The log of a stopped node."""

    @property
    def snapshot_end(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """Epoch of the last record."""
    @property
    def epoch(self) -> int:
        """Newest epoch that the node knows."""
    @property
    def voters(self) -> list[QuorumReplica]: ...

@final
class QuorumRoom:
    """The disk is full: the node neither votes nor leads until there is room."""

    @property
    def problem(self) -> str | None:
        """None: there is room again."""

@final
class QuorumFailure:
    """The disk failed, and the node has halted."""

    @property
    def message(self) -> str: ...

@final
class MetadataSnapshot:
    """A snapshot of the image while it is being written. It is discarded unless `finish` completes it."""

    def append(self, records: Sequence[bytes]) -> None:
        """Write records. *Blocking.* Raises NativeError."""
    def finish(self) -> None:
        """Make the snapshot durable; the node then removes the files that it replaces. *Blocking.* Raises
        NativeError."""

@final
class MetadataQuorum:
    """A node of the metadata quorum: the log, elections and replication, in threads of its own."""

    @staticmethod
    def is_formatted(directory: Path) -> bool:
        """*Blocking.* Return whether the directory is formatted. Raises NativeError."""
    @staticmethod
    def format(directory: Path, voters: Sequence[QuorumReplica], endpoints: Sequence[QuorumEndpoint]) -> None:
        """Write the first snapshot. `voters`: the first voters of a new cluster; empty to join one. *Blocking.* Raises
        NativeError."""
    def __new__(
        cls,
        *,
        directory: Path,
        node_id: int,
        directory_id: Uuid,
        cluster_id: str,
        bootstrap: Sequence[int],
        endpoints: Sequence[QuorumEndpoint],
        settings: Mapping[str, Any],
        seen_offset: int = 0,
    ) -> MetadataQuorum:
        """Open the log and start. `bootstrap`: nodes to ask for the leader; negative ids represent addresses.
        `endpoints`: this node's addresses. `seen_offset`: the node fails rather than truncates records below it.
        *Blocking.* Raises NativeError if the log is not formatted or damaged."""
    @staticmethod
    def check_snapshot(directory: Path, end_offset: int, epoch: int) -> tuple[int, list[QuorumReplica]]:
        """Check a complete snapshot; return the append time of its last record, and its voters. *Blocking.* Raises
        NativeError."""
    @staticmethod
    def summary(directory: Path) -> QuorumLogSummary:
        """Return what the log of a stopped node has; repair the traces of a crash. *Blocking.* Raises NativeError."""
    @staticmethod
    def make_only_voter(directory: Path, voter: QuorumReplica, endpoints: Sequence[QuorumEndpoint]) -> None:
        """Make a stopped node the only voter: its whole log is committed when it starts. *Blocking.* Raises
        NativeError."""
    @staticmethod
    def restore(
        source: Path,
        end_offset: int,
        epoch: int,
        directory: Path,
        voter: QuorumReplica,
        endpoints: Sequence[QuorumEndpoint],
    ) -> None:
        """Begin the log in `directory` with a snapshot in `source`, and `voter` as the only voter. *Blocking.* Raises
        NativeError."""
    def fileno(self) -> int:
        """Return a descriptor that is readable while `take` has something to return."""
    def take(
        self,
    ) -> list[
        QuorumRequest
        | QuorumResponse
        | SnapshotStart
        | SnapshotRecords
        | SnapshotEnd
        | CommittedRecords
        | ProposalOutcome
        | QuorumLeader
        | QuorumVoters
        | QuorumWarning
        | QuorumRoom
        | QuorumFailure
    ]:
        """Return the outputs since the last call, in order. Between two calls the node queues a limited amount of
        records."""
    def receive_request(self, handle: int, api_key: int, api_version: int, body: bytes) -> None:
        """Process a request of another node. The response comes as a QuorumResponse with the same handle. Raises
        ValueError if `body` is not a message of the quorum; the node then sends no response."""
    def receive_response(self, correlation: int, body: bytes) -> None: ...
    def request_failed(self, correlation: int, refused: bool) -> None:
        """Record that a request got no response. `refused`: the node's port refused the connection, or the connection
        broke and the port refuses a new one."""
    def port_refused(self, peer: int) -> None: ...
    def propose(self, proposal: int, epoch: int, records: Sequence[bytes]) -> None:
        """Append records as the leader of `epoch`. Raises ValueError if there are none."""
    def add_voter(self, proposal: int, voter: QuorumReplica, endpoints: Sequence[QuorumEndpoint]) -> None: ...
    def remove_voter(self, proposal: int, voter: QuorumReplica) -> None: ...
    def learn(self, endpoints: Sequence[QuorumEndpoint]) -> None:
        """Remember addresses of other nodes."""
    def resign(self, successor: int | None = None) -> None:
        """Resign as the leader. Does nothing if this node does not lead."""
    def answer_fetches(self) -> None:
        """Answer all waiting fetches. Does nothing if this node does not lead."""
    def status(self) -> QuorumStatus: ...
    def begin_snapshot(self, end_offset: int, timestamp_ms: int) -> MetadataSnapshot | None:
        """Begin a snapshot of the image as of the end of a committed batch; `timestamp_ms`: append time of its last
        record. Return None if `end_offset` is not beyond the latest snapshot, or while another snapshot is being
        written. *Blocking.*"""
    def stop(self) -> None:
        """Stop the node. Undecided proposals end with NOT_CONTROLLER. *Blocking.* Raises NativeError."""

# ----------------------------------------------------------------------------------------------------------
# The codec

def encode(message: object, version: int) -> bytes:
    """Return the body of a message of `pybroker.protocol.messages` or `.interbroker`. Fields that `version` does not
    have are left out. Raises CodecError."""

def decode(api_key: int, version: int, data: bytes, request: bool, *, interbroker: bool = False) -> Any:
    """Decode a message body. Left-over bytes are an error. Raises CodecError."""

def decode_data(name: str, version: int, data: bytes, *, front: bool = False) -> Any:
    """Decode the content of a record, or of a bytes field, without the version before it. `name`: name of its class
    (`StoredOffset`). `front`: ignore bytes at the end, as later versions only add fields there. Raises CodecError."""

def stored_offset(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp: int,
    expire_timestamp: int | None,
    topic_id: Uuid | None,
) -> tuple[bytes, bytes]:
    """Return (key, value) of a committed offset in `__consumer_offsets`: OffsetCommitKey of type 1, OffsetCommitValue
    of version 4. `group`: at most 32,767 bytes. Timestamps in milliseconds."""

def encode_request(message: object, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """Return header and body of a client's request, without its length. Raises CodecError."""

def decode_response(api_key: int, version: int, frame: bytes, *, interbroker: bool = False) -> tuple[int, Any]:
    """Decode a response, without its length, for a client; return (correlation id, message). Raises CodecError."""

def use_classes(message: str, classes: dict[str, type]) -> None:
    """Register the classes for the structs of an inter-broker message, by the names of the structs. They must have the
    same fields in the same order. Raises CodecError."""

def message_class(name: str, *, interbroker: bool = False) -> type | None:
    """Return the class of a message or of a struct in it; None if the name is unknown."""

def message_names(*, interbroker: bool = False) -> list[str]:
    """Return the names of the messages defined in a registry."""

def message_schema(name: str, *, interbroker: bool = False) -> MessageSchema | None:
    """Return the schema of a message; None if the name is unknown."""

@final
class MessageSchema:
    """The schema of a message."""

    @property
    def kind(self) -> str:
        """request, response, header or data."""
    @property
    def api_key(self) -> int | None: ...
    @property
    def min_version(self) -> int: ...
    @property
    def max_version(self) -> int: ...
    @property
    def structs(self) -> list[StructSchema]:
        """The message's own struct is first."""

@final
class StructSchema:
    """The schema of a message's own struct, or of a struct in it."""

    @property
    def name(self) -> str:
        """Name of its class."""
    @property
    def fields(self) -> list[FieldSchema]: ...

@final
class FieldSchema:
    """A field as its schema describes it."""

    @property
    def name(self) -> str: ...
    @property
    def type_name(self) -> str:
        """Type as in the schema, but with the full names of classes: `[]CreateTopicsRequest_CreatableTopic`."""
    @property
    def versions(self) -> tuple[int, int]:
        """(first, last) version with the field; none if first > last."""
    @property
    def nullable(self) -> tuple[int, int]:
        """(first, last) version in which the field may be null; none if first > last."""
    @property
    def default(self) -> str:
        """Default value as a Python expression."""

def api_table() -> list[ApiInfo]:
    """Return all APIs."""

@final
class ApiInfo:
    """An API as served to clients."""

    @property
    def key(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def min_version(self) -> int:
        """On client listeners."""
    @property
    def max_version(self) -> int:
        """On client listeners."""
    @property
    def plane(self) -> str:
        """The plane that answers it: native or python."""
    @property
    def served(self) -> bool: ...

def error_code_table() -> list[ErrorCodeInfo]:
    """Return all error codes."""

@final
class ErrorCodeInfo:
    """An error code of Kafka."""

    @property
    def code(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def retriable(self) -> bool:
        """Whether clients retry."""

# ----------------------------------------------------------------------------------------------------------
# # Functions of the data path, exposed for benchmarks: the same code that serves the sockets

def unpacked(codec: int, data: bytes, max: int) -> bytes:
    """Decompress `data` with the codec of the attribute bits `codec`. Raises ValueError if it cannot be decompressed,
    or has more than `max` bytes."""

def crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum, as record batches contain it."""

def validate_batch(data: bytes, now_ms: int) -> int:
    """Check one record batch as Produce does, with Kafka's default topic settings; return its record count. Raises
    NativeError with the error code of Produce."""

def build_batch(records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> bytes:
    """Return an uncompressed record batch at base offset 0."""

def decode_hot(api_key: int, version: int, data: bytes, request: bool) -> int:
    """Decode a body of Produce (key 0) or Fetch (key 1); return its number of partitions. Raises CodecError."""

@final
class TopicPartitions:
    """A topic and its number of partitions."""

    def __new__(cls, topic_id: Uuid, topic: str, partitions: int) -> TopicPartitions: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partitions(self) -> int: ...

@final
class HotResponse:
    """Content of a Produce or Fetch response, ready to be encoded."""

    def __new__(
        cls, api_key: int, version: int, topics: Sequence[TopicPartitions], records: bytes = b""
    ) -> HotResponse:
        """Each partition of a Fetch response contains `records`. Raises ValueError for a version that is not served."""
    def encode(self) -> bytes:
        """Return the encoded body."""

@final
class PartitionIndex:
    """The maps topic id → partitions and name → topic id, as Produce and Fetch use them."""

    def __new__(cls, topics: Sequence[TopicPartitions]) -> PartitionIndex: ...
    def by_id(self, topic_id: Uuid, partition: int) -> bool:
        """Return whether the partition exists."""
    def by_name(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists, looked up by topic name."""
    def count_by_id(self, keys: bytes) -> int:
        """Return the number of keys (16 bytes of id, 4 of partition, as on the wire) that exist."""
    def count_by_name(self, names: Sequence[str], partition: int) -> int:
        """Return the number of topic names that have that partition."""

@final
class TopicKeys:
    """Topic ids or topic names in an array, to measure the cost of comparing, sorting and copying them."""

    @staticmethod
    def of_ids(topic_ids: Sequence[Uuid]) -> TopicKeys:
        """Create an array of ids. Raises ValueError for the zero id."""
    @staticmethod
    def of_names(names: Sequence[str]) -> TopicKeys: ...
    def count_equal(self, other: TopicKeys) -> int:
        """Return the number of keys equal to the other array's key at the same index. Raises ValueError if one array
        has ids and the other names."""
    def count_less(self, other: TopicKeys) -> int:
        """Return the number of keys less than the other array's key at the same index. Raises ValueError if one array
        has ids and the other names."""
    def sorted(self) -> int:
        """Sort the keys, ids by value and names by reference; return their number."""
    def copied(self) -> int:
        """Copy all keys and drop the copies; return their number."""

# ----------------------------------------------------------------------------------------------------------
# # For clients

@final
class ClientBatch:
    """Builder of one record batch. Not thread-safe."""

    def __new__(cls, compression: str, bytes_max: int, level: int | None = None) -> ClientBatch:
        """`compression`: none, gzip, snappy, lz4, zstd. `bytes_max`: maximum size of records and header before
        compression; a single record may exceed it."""
    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> bool:
        """Add a record. Return False if it does not fit and the batch is not empty: the record needs a new batch."""
    def append_many(
        self, records: list[bytes] | list[tuple[bytes | None, bytes | None]], start: int, timestamp_ms: int
    ) -> int:
        """Add records from index `start` on, each a value or (key, value), until one does not fit. Return the index of
        that record, or the length of the list. Raises TypeError for a wrong record; the ones before it are added."""
    def build(self, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> bytes:
        """Return the finished record batch, compressed without the GIL. May be repeated with another producer id."""
    def split(self) -> tuple[ClientBatch, ClientBatch]:
        """Return two batches, with the first and the second half of the records. Raises ValueError for a batch of one
        record."""
    @property
    def size_bytes(self) -> int:
        """Size of the added records before compression."""
    def __len__(self) -> int:
        """Return the number of added records."""

def append_partitioned(
    batches: Sequence[ClientBatch],
    records: list[tuple[bytes | None, bytes | None]],
    start: int,
    timestamp_ms: int,
    keyless: int,
) -> tuple[int, int]:
    """Add (key, value) records from index `start` on to the batch of their key's partition, or of partition `keyless`
    if they have no key. Return (index, partition) of the first record that does not fit, or (length, -1)."""

def partition_of_key(key: bytes, count: int) -> int:
    """Return the partition among `count` that Java's default partitioner chooses (murmur2). Raises ValueError for 0."""

def java_hash(utf_16: bytes) -> int:
    """Return Java's `String.hashCode` of a text in UTF-16, high byte first."""

@final
class ConsumerRecord:
    """A record that a consumer read."""

    def __new__(
        cls,
        topic: str,
        partition: int,
        offset: int,
        key: Any = None,
        value: Any = None,
        *,
        headers: tuple[tuple[str, bytes | None], ...] | None = None,
        timestamp: int = -1,
        timestamp_type: int = 0,
        leader_epoch: int = -1,
        topic_id: Uuid = ...,
    ) -> ConsumerRecord: ...
    @property
    def topic(self) -> str: ...
    @property
    def topic_id(self) -> Uuid:
        """Uuid.ZERO if the broker does not support topic ids."""
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
    @property
    def timestamp_type(self) -> int:
        """0 = the producer's (CreateTime), 1 = the broker's (LogAppendTime)."""
    @property
    def leader_epoch(self) -> int:
        """Of the leader that appended it; -1 if unknown."""
    @property
    def key(self) -> Any:
        """bytes or None, or the deserializer's result."""
    @property
    def value(self) -> Any:
        """Like `key`; None is a tombstone."""
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    def header(self, name: str, default: bytes | None = None) -> bytes | None:
        """Return the value of the last header with that name, which may be None; `default` if there is none."""

@final
class RecordDecoder:
    """Decodes fetched batches to records."""

    def __new__(
        cls, *, check_crcs: bool = True, key_deserializer: Any = None, value_deserializer: Any = None
    ) -> RecordDecoder:
        """Deserializers are called with (topic, bytes or None, headers)."""
    def decode(
        self,
        data: bytes,
        from_offset: int,
        *,
        topic: str,
        topic_id: Uuid,
        partition: int,
        aborted: Sequence[tuple[int, int]] | None = None,
    ) -> DecodedRecords:
        """Return the records of a Fetch response from `from_offset` on. Control batches are left out, and with
        `aborted`, a list of (producer id, first offset), aborted transactions too."""

@final
class DecodedRecords:
    """The records of a Fetch response."""

    @property
    def records(self) -> list[ConsumerRecord]:
        """After an error only the records before it."""
    @property
    def next_offset(self) -> int:
        """Offset to continue from; after an error the offset that cannot be read."""
    @property
    def error(self) -> BaseException | None:
        """A damaged batch (NativeError), or the exception of a deserializer."""

# Spark: rows as Arrow batches, requests for planning

SPARK_SETTINGS: tuple[str, ...]
"""Names of the settings that BlockingClient, ArrowSink and ArrowSource use."""

@final
class BlockingClient:
    """A blocking client of a cluster, which releases the GIL. `settings`: Kafka's names, values as text."""

    def __new__(cls, settings: Mapping[str, str]) -> BlockingClient:
        """Create the client without connecting. Raises NativeError for an unusable setting."""
    @property
    def delivery_timeout_ms(self) -> int:
        """Value of `delivery.timeout.ms`, set or default."""
    @property
    def read_committed(self) -> bool:
        """Whether `isolation.level` is read_committed."""
    def cluster_id(self) -> str | None:
        """Return the cluster's id. Raises NativeError if no broker can be reached."""
    def version(self, api_key: int, low: int, high: int, node: int | None = None) -> int | None:
        """Return the highest version of low..high that the node serves, None if there is none. `node`: None = any, −1 =
        the controller, else a broker's id. Raises NativeError."""
    def request(self, message: object, version: int, node: int | None = None) -> Any:
        """Send a message of `pybroker.protocol.messages`, and return the response. Raises NativeError, CodecError."""

@final
class SinkTarget:
    """A topic to write rows to."""

    def __new__(cls, topic_id: Uuid, topic: str, partitions: int, batch_bytes_max: int) -> SinkTarget: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partitions(self) -> int:
        """Number of partitions."""
    @property
    def batch_bytes_max(self) -> int:
        """Size of the largest batch that the topic accepts."""

@final
class IngestAttempt:
    """Identifies an attempt of a writer of a staged ingest."""

    def __new__(cls, ingest_id: str, batch_id: int, epoch: int, writer: int, attempt: int) -> IngestAttempt: ...
    @property
    def ingest_id(self) -> str: ...
    @property
    def batch_id(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def writer(self) -> int: ...
    @property
    def attempt(self) -> int: ...

@final
class SinkTransaction:
    """The transaction to write rows in, with the producer id and epoch of InitProducerId. The code that began the
    transaction also ends it."""

    def __new__(cls, transactional_id: str, producer_id: int, producer_epoch: int) -> SinkTransaction: ...
    @property
    def transactional_id(self) -> str: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...

@final
class WrittenPartition:
    """Summary of the records written to one partition."""

    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def payload_bytes(self) -> int:
        """Size of keys and values."""
    @property
    def batch_bytes(self) -> int: ...
    @property
    def checksum(self) -> int:
        """CRC-32C over the batches' checksums."""
    @property
    def first_offset(self) -> int:
        """-1 if unknown."""
    @property
    def last_offset(self) -> int:
        """-1 if unknown."""

@final
class ArrowSink:
    """The writer of one task: converts Arrow batches to record batches, and sends at most five at a time to each
    broker.

    `topic_column`: the column `topic` selects the topic, instead of `targets`. `staging`: stage the rows for this
    attempt; None = use Produce, in `transaction` if there is one. `seed`: distributes records without key."""

    def __new__(
        cls,
        settings: Mapping[str, str],
        targets: Sequence[SinkTarget],
        *,
        topic_column: bool = False,
        staging: IngestAttempt | None = None,
        transaction: SinkTransaction | None = None,
        seed: int = 0,
    ) -> ArrowSink:
        """Create the writer and connect. Raises NativeError."""
    def write(self, batch: object) -> None:
        """Write the rows of an object with `__arrow_c_array__`: column value, and optional columns key, topic,
        partition, headers, timestamp. Raises NativeError, ValueError if it is not Arrow data."""
    def finish(self) -> list[WrittenPartition]:
        """Wait for all responses, and return the summaries. Raises NativeError, RuntimeError at a second call."""

@final
class ArrowBatch:
    """Rows that can be imported as Arrow data."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return (schema, array) of the Arrow PyCapsule interface."""

@final
class SourceRange:
    """Offsets `start`..`end` (exclusive) of one partition."""

    def __new__(cls, topic_id: Uuid, topic: str, partition: int, start: int, end: int) -> SourceRange: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...

@final
class ArrowSource:
    """Reads records as Arrow batches. `columns`: names of the data source's columns."""

    def __new__(
        cls, settings: Mapping[str, str], offsets: SourceRange, columns: Sequence[str], cluster_id: str = ""
    ) -> ArrowSource:
        """Create the reader; the first `next` connects. Raises ValueError, NativeError."""
    @property
    def position(self) -> int:
        """The next offset to read."""
    def next(self) -> ArrowBatch | None:
        """Return the next rows; None at the end of the range. Raises NativeError: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_ID
        …"""
