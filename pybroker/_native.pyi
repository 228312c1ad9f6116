"""The native core as Python sees it. Only `pybroker.native` imports it.

Threads: every method may be called from any thread. Methods marked *blocking* touch the disk with the GIL
released; the event loop calls them through an executor. All times are milliseconds since the Unix epoch, all
sizes bytes. Where a method gives error codes they are Kafka's (0 = none)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, final, overload

# ----------------------------------------------------------------------------------------------------------
# Exceptions

class NativeError(Exception):
    """Trouble outside the program: `args` is (code, sentence), where code is Kafka's error code."""

    code: int
    message: str

class LogDirError(NativeError):
    """A log directory is refused at start: in use by another broker, of another cluster or broker,
    unreadable."""

class ListenerError(NativeError):
    """A listener cannot be opened: port in use, address not local, unknown security protocol."""

class CodecError(ValueError):
    """Bytes that are no message of that key and version, or a message that this version cannot carry."""

# ----------------------------------------------------------------------------------------------------------
# Identity

@final
class Uuid:
    """A 128-bit id (KIP-516). Frozen; ordered by its bytes; `str()` is 22 characters of url-safe base64."""

    ZERO: ClassVar[Uuid]
    METADATA: ClassVar[Uuid]
    def __new__(cls, most_significant_bits: int, least_significant_bits: int) -> Uuid:
        """The id made of Java's halves; each is taken modulo 2**64, so signed ones fit."""
    @staticmethod
    def random() -> Uuid:
        """A version-4 id: never ZERO or METADATA, and its text never starts with '-'."""
    @staticmethod
    def parse(text: str) -> Uuid:
        """Reads base64 (22 characters), 32 hex digits or the dashed form. Raises ValueError."""
    @staticmethod
    def from_bytes(data: bytes) -> Uuid:
        """From 16 big-endian bytes. Raises ValueError for another length."""
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
"""The names of the topics that brokers keep for themselves."""

# ----------------------------------------------------------------------------------------------------------
# What drain() gives

@final
class Request:
    """A request that Python answers. Exactly one of `reply` and `close`; dropped unanswered, it closes
    its connection."""

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
        """The client has proven by SASL who it is; false on listeners without SASL."""
    @property
    def by_token(self) -> bool:
        """It has done so by a delegation token (KIP-48)."""
    @property
    def listener(self) -> str: ...
    @property
    def of_broker(self) -> bool:
        """Whether a broker asks, over the listener for brokers; the message is then of that registry."""
    @property
    def client_host(self) -> str: ...
    @property
    def client_port(self) -> int: ...
    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version, in the client's own words (KIP-511); empty if it has said none."""
    @property
    def connection_id(self) -> int: ...
    @property
    def message(self) -> object:
        """The decoded message: an instance of a class of `pybroker.protocol.messages`; None of a large one before
        `NativeControlQueue.decode`."""
    @property
    def elements(self) -> int:
        """Of all its arrays together; 0 of a request from a broker, and of one that has fewer than 1,000."""
    @property
    def timed(self) -> bool:
        """The client has a quota of time: `spent` counts."""
    def spent(self, nanoseconds: int) -> None:
        """So much time of the control plane went into it."""
    @property
    def cancelled(self) -> bool:
        """True once the connection is gone: an answer would reach nobody."""
    def waits(self) -> None:
        """Its handler waits for something: what follows counts as Kafka's RemoteTimeMs."""
    def reply(self, message: object, elements_max: int = ...) -> bool:
        """Encodes the response for `api_version` and sends it. False: it has more elements, and nothing is sent. Raises
        CodecError if it does not fit the version (the request stays answerable), RuntimeError if it was answered
        before."""
    def reply_large(self, message: object) -> None:
        """The same for many elements, on a thread of its own: lets go of the GIL again and again."""
    def reply_standing(self, message: object, group: str) -> StandingAnswer | None:
        """The same; data threads repeat the answer over this connection for requests of the same bytes, from whoever
        may READ the group then, until it is taken back. None: this request's answer is not repeated."""
    def reply_commits(
        self,
        message: object,
        shard: ShardCommits,
        topics: Sequence[CommitTopic],
        metadata_bytes_max: int,
        timeout_ms: int,
        before: CommitRight | None,
    ) -> CommitRight | None:
        """The same for an OffsetCommit; data threads take the member's next commits over this connection, for these
        topics (and those of `before`, if that still stands) and with metadata of so many bytes at most, from whoever
        may READ group and topics then, until the right is taken back. After `timeout_ms` one that is not on disk is
        answered COORDINATOR_NOT_AVAILABLE. None: the commits of this connection or version are not left to them."""
    def reply_authenticated(
        self, message: object, principal: str, by_token: bool, session_lifetime_ms: int | None
    ) -> None:
        """The same for an authentication that has succeeded: the connection belongs to `principal` from then on."""
    def reply_and_close(self, message: object) -> None:
        """The same, then the connection is closed."""
    def close(self) -> None:
        """Drops the connection. Does nothing if it was answered before."""

@final
class Completion:
    """An append that `NativePartitions.append` started is committed, or has failed."""

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
    """A replica in a proposed set."""

    @property
    def broker_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int:
        """The life of the broker that the leader has heard; -1: not known."""

@final
class IsrProposal:
    """What a leader here asks of the controller (KIP-497). Answered by `NativeIsr.written` or `.refused`; until then
    the partition proposes nothing else, and commits nothing that one of either set has not."""

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
        """Of the state that it replaces."""

@final
class LogDirsFailed:
    """The last log directory has failed; the broker has to halt."""

    @property
    def reason(self) -> str: ...

@final
class ConnectionGone:
    """A connection over which a share group's member fetched has gone, and its last request is answered."""

    @property
    def connection_id(self) -> int: ...

@final
class ReplicasOffline:
    """Partitions that can be served no more: their log directory has failed."""

    @property
    def partitions(self) -> list[tuple[Uuid, int]]:
        """Topic id and index of each."""

# ----------------------------------------------------------------------------------------------------------
# Orders and what they are about

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
        """`config`: all resolved topic settings under Kafka's names (give the same dict object to all
        partitions of a topic: it is parsed once). `version`: of the partition's state with the
        controller. `is_new`: the controller creates it now; otherwise a directory that is missing
        although a log directory is offline is not created anew elsewhere. `start_offset`: of a log
        that is created."""
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
class CommitRight:
    """Leaves a member's commits to data threads. Any change of the metadata, features or settings that native code is
    told of takes it back by itself, and so does its shard."""

    def take_back(self) -> None:
        """Nothing is committed under it any more when this returns, and what was committed is in the log."""
    def silent_ms(self) -> int:
        """For how many milliseconds nothing was committed under it, taken back or not."""

@final
class CommitTopic:
    """A topic that a member may commit for."""

    def __new__(cls, topic_id: Uuid, name: str, partitions: int, first_epoch: int) -> CommitTopic:
        """`first_epoch`: from this leader epoch on all are of this incarnation."""
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
    """An offset that a data thread has committed."""

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
        """Where its record lies; while that is on its way, its place in its batch."""

@final
class ShardCommits:
    """The commits of one partition of the offsets topic that data threads take, as it is led under one leader epoch."""

    def __new__(cls, topic_id: Uuid, partition: int, leader_epoch: int) -> ShardCommits: ...
    def take_all_back(self) -> None:
        """No right that was given before stands any more when this returns, and what was committed under them is in the
        log."""
    def close(self) -> None:
        """The same; nor does one that is given later."""
    def take(self) -> list[MemberCommit]:
        """What was committed since this was called last, of each partition the latest."""
    def take_count(self) -> int:
        """How many offsets were committed since this was called last."""
    def in_flight(self) -> list[MemberCommit]:
        """What is on its way to disk."""
    def drop_group(self, group: str) -> None:
        """The group is gone with all that it has committed, also what is on its way."""
    def drop_topic(self, topic_id: Uuid) -> None:
        """The same for a topic."""

@final
class StandingAnswer:
    """An answer that data threads repeat. Any change of the metadata, features or settings that native code is told of
    takes it back by itself."""

    def take_back(self) -> None:
        """It is not given any more when this returns."""
    def silent_ms(self) -> int:
        """For how many milliseconds it has not been asked for, taken back or not."""

class StopOrder:
    """One partition of a StopReplica request, already checked."""

    def __new__(cls, topic_id: Uuid, partition: int, leader_epoch: int, delete: bool) -> StopOrder:
        """`delete`: the directory moves to `deleting/{topic id in hex}_{partition}`; works for
        partitions that lie on disk without being hosted, too. `leader_epoch`: -1 none, -2 the topic
        is being deleted (KIP-516)."""
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
    """Where another broker listens for brokers."""

    def __new__(cls, broker_id: int, host: str, port: int) -> BrokerAddress: ...
    @property
    def broker_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...

@final
class FollowedPartition:
    """Whom a partition follows."""

    def __new__(cls, topic_id: Uuid, partition: int, leader: int, leader_epoch: int) -> FollowedPartition:
        """`leader`: this broker, or a negative number, for nobody."""
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
    """What the thread that fetches from one leader has done since it began."""

    @property
    def leader(self) -> int: ...
    @property
    def partitions(self) -> int:
        """That are followed there."""
    @property
    def held_back(self) -> int:
        """Those of them that are not asked for at the moment: after an error, or until their flush."""
    @property
    def connected(self) -> bool: ...
    @property
    def requests(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Of records that were appended."""
    @property
    def records(self) -> int:
        """Offsets that these bytes cover."""
    @property
    def lag_max(self) -> int:
        """The most offsets that one of the partitions is behind its leader's high watermark."""

@final
class LocalPartition:
    """A partition directory found by the scan at start; nothing of it is opened yet."""

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
        """From `partition.metadata`; None if that file is missing or damaged."""
    @property
    def problem(self) -> str | None:
        """Why it must not be served as it is (damaged or missing `partition.metadata`, …):
        quarantined, never deleted."""

@final
class AdoptedDirectory:
    """A directory of the scan that is given to a partition."""

    def __new__(cls, directory: str, topic_id: Uuid, partition: int) -> AdoptedDirectory: ...
    @property
    def directory(self) -> Path: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partition(self) -> int: ...

@final
class PartitionEnds:
    """Where the log of a hosted partition begins and ends."""

    def __new__(cls, partition: int, log_start_offset: int, log_end_offset: int) -> PartitionEnds: ...
    @property
    def partition(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...

@final
class PartitionRole:
    """What this broker does for a hosted partition."""

    def __new__(
        cls, partition: int, leader_epoch: int, leader: int, fenced: bool, offline: bool
    ) -> PartitionRole: ...
    @property
    def partition(self) -> int: ...
    @property
    def leader_epoch(self) -> int:
        """-1 once it is stopped."""
    @property
    def leader(self) -> int:
        """This broker's id where it leads; negative: none."""
    @property
    def fenced(self) -> bool:
        """Its appends are refused because its topic is about to be deleted."""
    @property
    def offline(self) -> bool:
        """Its log directory failed, or its log could not be opened."""

@final
class Lag:
    """How far a reader of a partition is behind."""

    @property
    def records(self) -> int:
        """Between its offset and the high watermark."""
    @property
    def oldest_ms(self) -> int:
        """Time of the first record that it has not read (that of the batch); -1: it has read all."""

@final
class PartitionOffsets:
    """Where the log of a hosted partition stands."""

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
        """The last leader epoch that the log knows; -1: none."""
    @property
    def size_bytes(self) -> int: ...

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
        """It is on its way into this directory (KIP-113)."""

@final
class LogDirInfo:
    """A log directory as DescribeLogDirs shows it."""

    @property
    def path(self) -> str: ...
    @property
    def error_code(self) -> int:
        """KAFKA_STORAGE_ERROR (56) once it is offline."""
    @property
    def total_bytes(self) -> int:
        """Of its file system; -1 if unknown (KIP-827)."""
    @property
    def usable_bytes(self) -> int: ...
    @property
    def partitions(self) -> list[LogDirPartition]: ...

@final
class LogDirRoom:
    """The room of an online log directory."""

    @property
    def path(self) -> str: ...
    @property
    def total_bytes(self) -> int:
        """Of its file system; -1 if unknown."""
    @property
    def usable_bytes(self) -> int: ...
    @property
    def full_refusals(self) -> int:
        """Writes refused since the start because the disk is full."""

@final
class StagedDirectory:
    """A partition directory that waits for removal in `deleting/`."""

    @property
    def path(self) -> str: ...
    @property
    def log_dir(self) -> str: ...
    @property
    def topic_id(self) -> Uuid | None:
        """None if its name and its `partition.metadata` do not agree: an operator decides."""
    @property
    def partition(self) -> int:
        """-1 with the topic id."""
    @property
    def directory(self) -> str | None:
        """Name of its directory before it was staged."""
    @property
    def deadline_ms(self) -> int | None:
        """When it may be purged: staged at + `delete.topic.delay.ms`. None: not known, an operator decides."""
    @property
    def purging(self) -> bool:
        """Its removal has begun: it cannot be brought back."""

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
        """Whose transaction it is part of, or ends; -1 outside of transactions."""
    @property
    def committed(self) -> bool | None:
        """For a marker: whether it commits. None for records."""
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """(name, value) in their order."""

@final
class Pattern:
    """A regular expression that a whole text has to match, in time linear in the text."""

    def __new__(cls, pattern: str) -> Pattern:
        """Raises ValueError saying what is wrong with it."""
    def matches(self, text: str) -> bool: ...

@final
class ActiveProducer:
    """A producer that the log of a partition knows."""

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
        """Of the coordinator that wrote its last marker; -1 if there is none."""
    @property
    def transaction_start(self) -> int:
        """Offset at which its open transaction begins; -1 if none is open."""
    def __eq__(self, other: object) -> bool: ...

@final
class TransactionQuestion:
    """A leader here asks whether partitions are part of a transaction, before its first records are written to them
    (KIP-890). Dropped unanswered, the client is told to try again."""

    @property
    def transactional_id(self) -> str: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def adds(self) -> bool:
        """The partitions are to be made part of it, if they are not."""
    @property
    def abortable(self) -> bool:
        """The client understands TRANSACTION_ABORTABLE."""
    @property
    def partitions(self) -> list[tuple[Uuid, int]]:
        """(topic id, partition)"""
    def answer(self, codes: Sequence[int]) -> None:
        """An error code for each partition; only the first answer counts."""

@final
class FetchedBatches:
    """Batches that were read for a share group. The bytes stay in the native core."""

    @property
    def batches(self) -> list[tuple[int, int]]:
        """(first offset, last offset) of each with records for the group, ascending: no markers, nothing aborted."""
    @property
    def next_offset(self) -> int:
        """Where to go on; equal to the offset asked for where nothing can be read."""
    @property
    def bound(self) -> int:
        """What may be read ends here."""
    @property
    def size_bytes(self) -> int:
        """Of `batches`."""
    def records(self, first: int, last: int) -> RecordBytes | None:
        """The batches that have offsets from `first` to `last`, and what lies between them."""

@final
class RecordBytes:
    """Record batches, to be put into a response."""

    def __len__(self) -> int: ...

@final
class RecordsWatch:
    """A place among those who wait for more records of a partition; letting go of it gives the place up."""

    @property
    def token(self) -> int:
        """Of the Completion."""
    def cancel(self) -> None:
        """Gives the place up."""

@final
class StoredRecords:
    """What one read of a local log gave."""

    def __new__(cls, records: Sequence[StoredRecord], next_offset: int) -> StoredRecords: ...
    @property
    def records(self) -> list[StoredRecord]: ...
    @property
    def next_offset(self) -> int:
        """Where to go on; equal to the offset asked for at the end of the log."""

# ----------------------------------------------------------------------------------------------------------
# Listeners

@final
class ListenerConfig:
    """A listener to be opened. An empty host means all addresses, port 0 a free one."""

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
        """Brokers talk to each other on it: no client is served."""

@final
class TlsStore:
    """A keystore or truststore that is not read yet. `prefix`: its settings' names up to `type`, `location` and
    `password`; `place`: how errors call it; `kind`: PEM, JKS or PKCS12, or empty: what it looks like. What it holds is
    given as PEM, the key not encrypted. Raises ValueError, one line that names the setting."""

    def __new__(cls, prefix: str, place: str, kind: str, content: bytes, password: str | None) -> TlsStore: ...
    def identity(self, key_password: str | None) -> bytes:
        """The private key and the certificates that belong to it."""

    def trusted(self) -> bytes:
        """The certificates that are trusted."""

@final
class ListenerTls:
    """What a listener with TLS shows and whom it trusts. All but the words are PEM; the key is not encrypted.
    `revoked`: lists of revoked certificates; None: nobody asks."""

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
        """Raises ListenerError if a listener could not use it; changes nothing."""

@final
class Endpoint:
    """Where a broker can be reached on one of its listeners."""

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
    """An access control entry; types and operations are Kafka's numbers."""

    def __new__(
        cls, resource_type: int, prefixed: bool, name: str, principal: str, host: str, operation: int, allow: bool
    ) -> AclEntry:
        """`prefixed`: `name` is the beginning of names. `allow`: else it denies."""
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
    """A partition as clients see it."""

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
        """Those of `replicas` that are on failed disks or dead brokers."""

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
    """A change of what clients see. Removals take effect before changes, so a name may pass to a new topic in one
    delta."""

    def __new__(
        cls,
        *,
        brokers: Sequence[BrokerMetadata] | None = None,
        controller_id: int | None = None,
        topics_changed: Sequence[TopicMetadata] = (),
        topics_removed: Sequence[Uuid] = (),
    ) -> MetadataDelta:
        """`brokers`: all live brokers, None = unchanged. `controller_id`: -1 unknown, None = unchanged."""
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
    """What a commit lists of one attempt for one partition."""

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
    """What is staged for one partition."""

    def __new__(cls, partition: int, rows: int, bytes: int) -> StagedPartition: ...
    @property
    def partition(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...

@final
class AttachedPartition:
    """Where the records of a commit are in one partition."""

    def __new__(cls, base_offset: int, end_offset: int, repeated: bool, committed: bool) -> AttachedPartition: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int:
        """After the last of them."""
    @property
    def repeated(self) -> bool:
        """They were attached before."""
    @property
    def committed(self) -> bool:
        """They are below the high watermark: every replica in sync has them."""

@final
class IngestPreparation:
    """For whom a commit is prepared."""

    def __new__(cls, plan: int, leads: bool, holders: Mapping[int, Sequence[int]]) -> IngestPreparation: ...
    @property
    def plan(self) -> int:
        """Its number; 0 of a broker that is alone."""
    @property
    def leads(self) -> bool:
        """Whether this broker leads the listed partitions."""
    @property
    def holders(self) -> Mapping[int, Sequence[int]]:
        """By partition, the brokers that shall have it on disk; none of a broker that is alone."""

@final
class OpenIngest:
    """An ingest that takes appends."""

    @property
    def key(self) -> IngestKey: ...
    @property
    def epoch(self) -> int: ...
    @property
    def touched_ms(self) -> int:
        """When it last took records, or began."""
    @property
    def writers(self) -> int:
        """Attempts that have staged something."""
    @property
    def partitions(self) -> list[StagedPartition]:
        """Every attempt counted."""

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
        """`settings`: resolved broker settings under Kafka's names; those that native code does not
        know are ignored. Raises ValueError naming a setting of a wrong type."""
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
        """Dynamic broker settings that native code obeys; others are ignored. Raises ValueError."""
    @staticmethod
    def check_settings(settings: dict[str, Setting]) -> None:
        """Raises ValueError for settings that no broker could be given."""
    def metrics(self) -> str:
        """*Blocking.* Prometheus text; milliseconds for each thousand partitions."""
    def take_slow_requests(self) -> list[SlowRequest]:
        """Requests that took `slow.request.log.ms` or longer since the last call, the oldest first, 1,000 at most.
        The first call gives none."""
    def shutdown(self, timeout_ms: int) -> None:
        """*Blocking.* Finishes produces, closes connections, flushes, writes snapshots, checkpoints
        and the clean-shutdown marker. Past `timeout_ms` no marker is written and the next start
        recovers. Idempotent. Raises NativeError for what could not be brought to disk."""

@final
class SlowRequest:
    """A request that took long."""

    @property
    def api(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def received_ns(self) -> int:
        """When its last byte was there, since 1970."""
    @property
    def stages_us(self) -> list[int]:
        """The parts of its time: queue, local, remote, response queue, response send."""
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
        """Python has answered it."""

@final
class NativeLogDirs:
    """The log directories."""

    def start(self) -> list[LocalPartition]:
        """*Blocking.* Locks each directory, checks or writes meta.properties, scans. Raises
        LogDirError if a directory is in use or belongs to another cluster or broker, or if none is
        usable; a directory that fails with an I/O error while others work is offline from the
        start. Calls of other objects that need the directories raise RuntimeError before it."""
    def describe(self) -> list[LogDirInfo]:
        """*Blocking.* All of them with the partitions in them."""
    def rooms(self) -> list[LogDirRoom]:
        """*Blocking.* The log directories that are online, with their room."""
    def adopt(self, directories: Sequence[AdoptedDirectory]) -> list[str | None]:
        """*Blocking.* Writes `partition.metadata` into directories that the scan found without one, durably; from
        then on they wait for their order. None, or the problem, for each."""
    def set_aside(self, directories: Sequence[str]) -> None:
        """*Blocking.* These directories of the scan are not to be trusted: never opened, moved or removed."""
    def move_partition(self, topic_id: Uuid, partition: int, log_dir: str) -> int:
        """Orders a move to another log directory, which goes on by itself; the error code."""
    def stage(self, directory: str) -> str:
        """*Blocking.* Moves a directory that the scan found, that has a topic id and that is not
        hosted, to `deleting/`; gives its new path. Raises NativeError, ValueError."""
    def staged(self) -> list[StagedDirectory]:
        """*Blocking.* What waits in `deleting/` of all log directories that are online. Raises NativeError."""
    def purge(self, path: str) -> int:
        """*Blocking.* Removes a staged directory for good; gives the bytes freed. Raises NativeError,
        ValueError for a path that is not in `deleting/`."""

@final
class NativePartitions:
    """The partitions hosted here."""

    def apply(self, orders: Sequence[PartitionOrder]) -> list[int]:
        """*Blocking.* Creates or opens all logs at once and becomes leader; an error code for each order. Raises
        ValueError naming a topic setting that does not parse."""
    def stop(self, orders: Sequence[StopOrder]) -> list[int]:
        """*Blocking.* An error code for each order. Waiting produces and fetches of the partitions
        are answered."""
    def restore(self, topic_id: Uuid, topic: str, partitions: Sequence[int]) -> list[int]:
        """*Blocking.* Moves partitions from `deleting/` back under this name, unserved; an error code for each.
        What is back already is a success."""
    def set_fenced(self, topic_id: Uuid, fenced: bool) -> list[PartitionEnds]:
        """*Blocking, shortly.* Lets the partitions of a topic refuse appends (NOT_LEADER_OR_FOLLOWER), or take them
        again; the ends of each that is hosted. While fenced the ends stay where they are."""
    def roles(self, topic_id: Uuid) -> list[PartitionRole]:
        """The roles of the partitions of a topic that are hosted here."""
    @staticmethod
    def check_topic_config(config: dict[str, str]) -> None:
        """Raises ValueError for what `set_topic_config` would refuse."""
    def set_topic_config(self, topic_id: Uuid, config: dict[str, str]) -> None:
        """All resolved settings of a topic under Kafka's names. Raises ValueError naming the setting
        that does not parse."""
    def offsets(self, topic_id: Uuid, partition: int) -> PartitionOffsets | None:
        """None if the partition is not hosted here."""
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
        """Appends (key, value) records as one batch to a local leader with acks=all; gives a token at
        once. The Completion with that token, errors included (NOT_LEADER_OR_FOLLOWER,
        MESSAGE_TOO_LARGE, KAFKA_STORAGE_ERROR, …), comes by `drain`, in commit mode after the flush.
        `leader_epoch`: the one under which the writer knows what it writes upon; another one here is
        FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, -1 asks nothing. `producer`: (id, epoch) of whose transaction the
        records are part. Raises ValueError without records."""
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
        """The same, but gives the Completion itself, which `drain` then does not, if what became of the append is
        known at once: it failed, or waits for no flush and no other replica."""
    def append_batch(self, topic_id: Uuid, partition: int, batch: bytes) -> int:
        """Appends a finished batch to a local leader as a Produce with acks=all would; a token as for `append`."""
    def append_marker(
        self, topic_id: Uuid, partition: int, marker: tuple[int, int, int], committed: bool, timestamp_ms: int,
        raised: bool = False,
    ) -> Completion | int:
        """Ends a transaction in a local leader's partition with acks=all; a token or a Completion as for `append` with
        `at_once`. `marker`: (producer id, its epoch, coordinator epoch); an older one than the partition knows is
        INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED. `raised`: of a transaction of version 2, whose records
        have a lower epoch."""
    def producers(self, topic_id: Uuid, partition: int) -> list[ActiveProducer]:
        """The producers that a local leader's log knows. Raises NativeError."""
    def read_records(self, topic_id: Uuid, partition: int, offset: int, max_bytes: int) -> StoredRecords:
        """*Blocking.* Records from `offset` on up to the log end, decompressed, markers of transactions among them. At
        least one batch if there is one. Offsets below the log start begin there. Raises NativeError."""
    def lag(self, topic_id: Uuid, partition: int, offset: int) -> Lag | None:
        """*Blocking.* How far whoever has read up to `offset` is behind, as far as it is known here. None: not hosted
        here. Raises ValueError, NativeError."""
    def fetch(
        self, partition: tuple[Uuid, int], offset: int, limits: tuple[int, int], read_committed: bool, wait: bool
    ) -> FetchedBatches | None:
        """*Blocking if `wait`.* For a share group: whole batches from the one that holds `offset` on, up to the high
        watermark or the last stable offset, until they cover limits[1] offsets or are limits[0] bytes large; at least
        one, if there is one. None: they are on disk, and were not to be waited for. Raises NativeError."""
    def watch(self, topic_id: Uuid, partition: int, bound: int, read_committed: bool) -> RecordsWatch:
        """Tells once, by a Completion with its token, when more can be read than up to `bound`, or when the partition
        stops."""
    def offset_for_timestamp(self, topic_id: Uuid, partition: int, timestamp_ms: int, read_committed: bool) -> int:
        """*Blocking.* The first offset whose record has at least this timestamp; -1 if there is none. Raises
        NativeError."""
    def delete_records(self, topic_id: Uuid, partition: int, offset: int, flush_wait_s: float = 0.0) -> int:
        """*Blocking.* Moves the log start up to `offset` (-1 = high watermark); gives the low watermark. Waits at most
        `flush_wait_s` for a flush under way that brings the offset below the high watermark. Raises NativeError."""

@final
class NativeIngests:
    """Staged ingests (docs/staged-ingest.md). `directory` is that of an ingest's files, made of letters, digits, "-"
    and "_", another one for each epoch. Calls raise NativeError with a code of the wire."""

    def open(self, key: IngestKey, directory: str, epoch: int, config: dict[str, str]) -> None:
        """*Blocking.* Takes appends from now on, by the rules of `config`; drops an older epoch with what it staged."""
    def prepare(
        self, key: IngestKey, epoch: int, preparation: IngestPreparation, listed: Sequence[ListedAttempt]
    ) -> list[StagedPartition]:
        """*Blocking.* The commit before its decision: compares what is listed with what is staged, brings it to disk,
        takes no more. A leader brings the holders what they lack."""
    def reopen(self, key: IngestKey, epoch: int) -> None:
        """The commit was not decided: takes appends again."""
    def attach(self, topic_id: Uuid, partition: int, directory: str, plan: int, append_time: bool) -> AttachedPartition:
        """*Blocking.* The commit after its decision, of that plan. Once, however often it is called, and whoever led
        before. `append_time`: the records are stamped with the time of this."""
    def bring(self, topic_id: Uuid, partition: int, brokers: Sequence[int]) -> None:
        """*Blocking.* Brings what is staged here for a partition to brokers that are about to come into sync."""
    def expire(self, key: IngestKey, epoch: int, before_ms: int) -> bool:
        """*Blocking.* Closes it if it took nothing since `before_ms`; whether it is closed."""
    def drop(self, key: IngestKey, directory: str) -> None:
        """*Blocking.* Forgets it and removes its files. Harmless if it is not there."""
    def collect(self, keep: list[tuple[Uuid, str]]) -> int:
        """*Blocking.* Removes the files of all ingests but these (topic id, directory); how many there were."""
    def list(self) -> list[OpenIngest]:
        """Those that are open."""

@final
class NativeFetchers:
    """Which partitions follow which brokers: a thread for each leader copies its records, without Python. All but
    `figures` raise RuntimeError before `start` and after the shutdown."""

    def start(self, connection: dict[str, str]) -> None:
        """After log_dirs.start, once. `connection`: how brokers are spoken to, under the names that clients have for
        it (security.protocol, sasl.mechanism, sasl.username, sasl.password, ssl.…). Raises ValueError naming the
        setting."""
    def set_broker_epoch(self, broker_epoch: int) -> None:
        """The epoch of this broker's registration, which requests name from now on (KIP-903)."""
    def set(self, brokers: Sequence[BrokerAddress], partitions: Sequence[FollowedPartition]) -> None:
        """After partitions.apply. Waits for nobody. Where brokers are, as far as that is new, and whom the partitions
        named here follow; others go on as they did. An older epoch than the one followed is passed over."""
    def figures(self) -> list[FetcherFigures]:
        """By leader; of threads that run."""
    def stop(self) -> None:
        """*Blocking, for a second at most.* Follows nobody any more. Part of `shutdown`; harmless before it."""

@final
class NativeMetadata:
    """What clients are shown."""

    def publish(self, delta: MetadataDelta) -> int:
        """Applies an ordered delta; requests that start after it see it. Returns the new version."""
    def set_features(self, epoch: int, levels: Mapping[str, int]) -> None:
        """Replaces the finalized levels of features, by name, as ApiVersions tells them; 0: the feature is off. What
        was never finalized is at its highest level."""

@final
class NativeAuthorizer:
    """Access control entries. Those of a broker are in force: both planes ask here."""

    def __new__(cls) -> NativeAuthorizer:
        """Entries of its own, which are in force nowhere."""
    @staticmethod
    def is_valid_host(host: str) -> bool:
        """Whether a new entry may have this host: a text with a slash must be a network (KIP-1276)."""
    def publish(
        self,
        *,
        added: Sequence[AclEntry] = (),
        removed: Sequence[AclEntry] = (),
        super_users: Sequence[str] | None = None,
        allow_everyone_without_acls: bool | None = None,
    ) -> int:
        """Applies an ordered change of the entries, removals first; requests that start after it obey it. The first
        call switches the authorizer on. Returns the new version."""
    def permits(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether the entries in force permit that; true without authorizer."""
    def permits_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """The same for any resource of the type (KIP-679)."""
    def permitted_operations(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """What the principal may do with the resource, as Kafka's bit field of operations."""

@final
class ClientQuota:
    """What is set for one entity of users and client ids. Of names: None = no such part, empty = the default; of
    quotas: None = not set."""

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
    """How much clients may use of this broker."""

    def publish(
        self,
        *,
        clients: Sequence[ClientQuota],
        addresses: Sequence[tuple[str | None, float | None]],
        full: bool,
    ) -> None:
        """Applies an ordered change; requests that start after it obey it. `addresses`: connections a second, None: no
        bound; None in place of an address: the default. `full`: this is all there is. Raises ValueError."""
    def bounds_mutations(self, user: str, client_id: str) -> bool:
        """Whether a quota bounds how many partitions the client makes and removes."""
    def mutate(self, user: str, client_id: str, partitions: float, *, strict: bool) -> tuple[bool, int]:
        """Counts partitions that a client makes or removes; whether it may, and the milliseconds that it has to wait.
        `strict`: it may not, and nothing is counted, while it owes some."""

@final
class NativeListeners:
    """The listening sockets and their connections."""

    def secure(self, listener: str, tls: ListenerTls) -> None:
        """What a listener with TLS shows to those who connect from now on; before `open`, and again at any time. Raises
        ListenerError, which names the setting, for what cannot be used."""
    def open(self, listeners: Sequence[ListenerConfig]) -> list[Endpoint]:
        """Binds them; gives where each is bound, in order. Connections are not accepted yet. Raises ListenerError."""
    def start_accepting_brokers(self) -> None:
        """Where only brokers talk: they are heard before clients are."""
    def start_accepting(self) -> None:
        """On all that do not accept yet."""
    def stop_accepting(self) -> None:
        """Closes the listening sockets. Connections go on."""

@final
class NativeIsr:
    """The sets of replicas in sync with the leaders here. Proposals come through the control queue."""

    def judge(self, lag_max_ms: int) -> None:
        """Looks at every partition led here for followers that have been behind for longer. *Blocking*, briefly."""
    def written(self, topic_id: Uuid, partition: int, leader_epoch: int, isr: Sequence[int], version: int) -> None:
        """The controller has written this set for that leadership. Nothing happens if the partition has moved on."""
    def refused(self, topic_id: Uuid, partition: int, leader_epoch: int, version: int) -> None:
        """What was proposed for that version was not written and never will be."""

@final
class NativeControlQueue:
    """What the data plane hands to Python."""

    def wake_fd(self) -> int:
        """Becomes readable when the queue goes from empty to non-empty. For `loop.add_reader`; owned
        by this object."""
    def take_answers_back(self) -> None:
        """Takes back every StandingAnswer of this broker."""
    def decode(self, request: Request) -> bool:
        """Decodes a large request, on a thread of its own: lets go of the GIL again and again. False: it is no message,
        and its connection is closed."""
    def admit_line_about_client(self) -> int | None:
        """Admits a line of the log that a client causes: how many were left out since the last one. None: leave it
        out."""
    def drain(
        self, max_items: int = 256
    ) -> list[
        Request | Completion | IsrProposal | TransactionQuestion | ConnectionGone | ReplicasOffline | LogDirsFailed
    ]:
        """What has arrived, at most `max_items`; what sessions of clients wait for comes before requests of
        administrators. Requests that cannot be decoded are answered here by closing their connection. Also writes
        native log lines to the logger `pybroker.native`. A full batch means there may be more: call again."""

# ----------------------------------------------------------------------------------------------------------
# The codec

def encode(message: object, version: int) -> bytes:
    """The body of a message of `pybroker.protocol.messages` or `.interbroker`. Fields that `version` does not
    have are left out. Raises CodecError."""

def decode(api_key: int, version: int, data: bytes, request: bool, *, interbroker: bool = False) -> Any:
    """A message body. Left-over bytes are an error. Raises CodecError."""

def decode_data(name: str, version: int, data: bytes, *, front: bool = False) -> Any:
    """Content of records or of other messages' bytes, by the name of its class (`StoredOffset`): what follows the
    version in front of it. `front`: later versions only add fields at the end, which are left alone. Raises
    CodecError."""

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
    """(key, value) of a committed offset as `__consumer_offsets` has it: OffsetCommitKey of type 1, OffsetCommitValue
    of version 4. `group`: at most 32,767 bytes. Timestamps in milliseconds."""

def encode_request(message: object, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """For clients: header and body of a request, without its length. Raises CodecError."""

def decode_response(api_key: int, version: int, frame: bytes, *, interbroker: bool = False) -> tuple[int, Any]:
    """For clients: (correlation id, message) of a response without its length. Raises CodecError."""

def use_classes(message: str, classes: dict[str, type]) -> None:
    """Has the structs of an inter-broker message be objects of these classes from now on, by the names of the structs.
    They have the same fields in the same order. Raises CodecError."""

def message_class(name: str, *, interbroker: bool = False) -> type | None:
    """The class of a message or of a struct in it; None if there is none of that name."""

def message_names(*, interbroker: bool = False) -> list[str]:
    """The messages that a registry describes itself."""

def message_schema(name: str, *, interbroker: bool = False) -> MessageSchema | None:
    """What a schema says of a message; None if there is none of that name."""

@final
class MessageSchema:
    """What a schema says of a message."""

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
        """The message's own one first."""

@final
class StructSchema:
    """A message's own struct or one in it."""

    @property
    def name(self) -> str:
        """Of its class."""
    @property
    def fields(self) -> list[FieldSchema]: ...

@final
class FieldSchema:
    """A field as its schema describes it."""

    @property
    def name(self) -> str: ...
    @property
    def type_name(self) -> str:
        """As the schema writes it, but with the full names of classes: `[]CreateTopicsRequest_CreatableTopic`."""
    @property
    def versions(self) -> tuple[int, int]:
        """(first, last) that have it; none if first > last."""
    @property
    def nullable(self) -> tuple[int, int]:
        """(first, last) in which it may be null; none if first > last."""
    @property
    def default(self) -> str:
        """As Python writes it."""

def api_table() -> list[ApiInfo]:
    """Every API."""

@final
class ApiInfo:
    """An API as clients meet it."""

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
        """Who answers it: native or python."""
    @property
    def served(self) -> bool: ...

def error_code_table() -> list[ErrorCodeInfo]:
    """Every error code."""

@final
class ErrorCodeInfo:
    """An error code of Kafka's."""

    @property
    def code(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def retriable(self) -> bool:
        """Whether clients try again."""

# ----------------------------------------------------------------------------------------------------------
# Functions of the data path, callable for measurement: the same code that serves the sockets

def unpacked(codec: int, data: bytes, max: int) -> bytes:
    """The bytes behind `data`, compressed as attribute bits `codec` say. ValueError: they cannot be decompressed, or
    are more than `max`."""

def crc32c(data: bytes) -> int:
    """CRC-32C as record batches carry it."""

def validate_batch(data: bytes, now_ms: int) -> int:
    """Checks one record batch as Produce does, with Kafka's default topic settings; gives its record
    count. Raises NativeError with the code that Produce would answer."""

def build_batch(records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> bytes:
    """An uncompressed record batch at base offset 0."""

def decode_hot(api_key: int, version: int, data: bytes, request: bool) -> int:
    """Decodes a body of Produce (key 0) or Fetch (key 1); gives its number of partitions. Raises CodecError."""

@final
class TopicPartitions:
    """A topic and how many partitions it has."""

    def __new__(cls, topic_id: Uuid, topic: str, partitions: int) -> TopicPartitions: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partitions(self) -> int: ...

@final
class HotResponse:
    """What a Produce or Fetch response is about, ready to be encoded."""

    def __new__(
        cls, api_key: int, version: int, topics: Sequence[TopicPartitions], records: bytes = b""
    ) -> HotResponse:
        """Each partition of a Fetch response carries `records`. Raises ValueError for a version that is not
        served."""
    def encode(self) -> bytes:
        """The body."""

@final
class PartitionIndex:
    """The map topic id → partitions, name → topic id, as Produce and Fetch use it."""

    def __new__(cls, topics: Sequence[TopicPartitions]) -> PartitionIndex: ...
    def by_id(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the partition is there."""
    def by_name(self, topic: str, partition: int) -> bool:
        """The same, through the name."""
    def count_by_id(self, keys: bytes) -> int:
        """How many of the keys (16 bytes of id, 4 of partition, as on the wire) are there."""
    def count_by_name(self, names: Sequence[str], partition: int) -> int:
        """How many of the names have that partition."""

@final
class TopicKeys:
    """Topic ids or topic names side by side, for measurement: what comparing, sorting and copying them costs."""

    @staticmethod
    def of_ids(topic_ids: Sequence[Uuid]) -> TopicKeys:
        """Raises ValueError for the zero id."""
    @staticmethod
    def of_names(names: Sequence[str]) -> TopicKeys: ...
    def count_equal(self, other: TopicKeys) -> int:
        """How many keys at the same place are equal. Raises ValueError if one has ids and the other names."""
    def count_less(self, other: TopicKeys) -> int:
        """How many keys come before the one at the same place. Raises ValueError if one has ids and the other names."""
    def sorted(self) -> int:
        """Sorts them, ids themselves and names by reference; gives their number."""
    def copied(self) -> int:
        """Copies all and lets the copies go; gives their number."""

# ----------------------------------------------------------------------------------------------------------
# What clients need

@final
class ClientBatch:
    """The records of one batch in the making. Not for several threads at once."""

    def __new__(cls, compression: str, bytes_max: int, level: int | None = None) -> ClientBatch:
        """`compression`: none, gzip, snappy, lz4, zstd. `bytes_max`: of records and header, before compression; a
        single record may exceed it."""
    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> bool:
        """Adds a record; False if it does not fit and there are others: it belongs into another batch."""
    def append_many(
        self, records: list[bytes] | list[tuple[bytes | None, bytes | None]], start: int, timestamp_ms: int
    ) -> int:
        """Adds records from index `start` on, each a value or (key, value), until one does not fit; gives its
        index, or the length. Raises TypeError; what precedes the wrong record is in."""
    def build(self, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1) -> bytes:
        """The finished record batch, compressed without the GIL. May be repeated with another producer id."""
    def split(self) -> tuple[ClientBatch, ClientBatch]:
        """The first and the second half of the records. Raises ValueError for a batch of one record."""
    @property
    def size_bytes(self) -> int:
        """Bytes of the records so far, before compression."""
    def __len__(self) -> int:
        """Records so far."""

def append_partitioned(
    batches: Sequence[ClientBatch],
    records: list[tuple[bytes | None, bytes | None]],
    start: int,
    timestamp_ms: int,
    keyless: int,
) -> tuple[int, int]:
    """Adds (key, value) records from index `start` on to the batch of the key's partition, `keyless` without a
    key. Gives the index of the first that does not fit and its partition; the length and -1 if all did."""

def partition_of_key(key: bytes, count: int) -> int:
    """The partition among `count` that Java's default partitioner chooses (murmur2). Raises ValueError for 0."""

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
        """Uuid.ZERO from a broker without ids."""
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
        """bytes or None; with a deserializer what that made of it."""
    @property
    def value(self) -> Any:
        """As `key`; None is a tombstone."""
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    def header(self, name: str, default: bytes | None = None) -> bytes | None:
        """The value of the last header of that name, which may be None; `default` if there is none."""

@final
class RecordDecoder:
    """Makes records of what a consumer fetched."""

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
        """The records of a Fetch answer from `from_offset` on. Control batches are left out; with `aborted`,
        (producer id, first offset), aborted transactions too."""

@final
class DecodedRecords:
    """The records of a Fetch answer."""

    @property
    def records(self) -> list[ConsumerRecord]:
        """With an error those that precede it."""
    @property
    def next_offset(self) -> int:
        """Where to go on; with an error the offset of what cannot be read."""
    @property
    def error(self) -> BaseException | None:
        """A damaged batch (NativeError), or what a deserializer raised."""

# Spark: rows as Arrow batches, requests for planning

SPARK_SETTINGS: tuple[str, ...]
"""The names of the settings that BlockingClient, ArrowSink and ArrowSource read."""

@final
class BlockingClient:
    """A client of a cluster that blocks, without the GIL. `settings` under Kafka's names, values as text."""

    def __new__(cls, settings: Mapping[str, str]) -> BlockingClient:
        """Does not connect yet. Raises NativeError for an unusable setting."""
    @property
    def delivery_timeout_ms(self) -> int:
        """`delivery.timeout.ms`, as it was set or by default."""
    @property
    def read_committed(self) -> bool:
        """Whether `isolation.level` is read_committed."""
    def cluster_id(self) -> str | None:
        """Raises NativeError if no broker can be reached."""
    def version(self, api_key: int, low: int, high: int, node: int | None = None) -> int | None:
        """The highest version of low..high that the node serves, None if there is none. `node`: None = anyone,
        −1 = the controller, else a broker's id. Raises NativeError."""
    def request(self, message: object, version: int, node: int | None = None) -> Any:
        """The response to a message of `pybroker.protocol.messages`. Raises NativeError, CodecError."""

@final
class SinkTarget:
    """A topic that rows go to."""

    def __new__(cls, topic_id: Uuid, topic: str, partitions: int, batch_bytes_max: int) -> SinkTarget: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def topic(self) -> str: ...
    @property
    def partitions(self) -> int:
        """How many it has."""
    @property
    def batch_bytes_max(self) -> int:
        """Of the largest batch that it takes."""

@final
class IngestAttempt:
    """Which attempt of which writer of a staged ingest rows belong to."""

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
    """The transaction that rows are written in, by the producer that InitProducerId gave; whoever began it ends it."""

    def __new__(cls, transactional_id: str, producer_id: int, producer_epoch: int) -> SinkTransaction: ...
    @property
    def transactional_id(self) -> str: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...

@final
class WrittenPartition:
    """What was written to one partition."""

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
        """Of keys and values."""
    @property
    def batch_bytes(self) -> int: ...
    @property
    def checksum(self) -> int:
        """CRC-32C over the batches' checksums."""
    @property
    def first_offset(self) -> int:
        """-1 if it is not known."""
    @property
    def last_offset(self) -> int:
        """-1 if it is not known."""

@final
class ArrowSink:
    """One task's writer: Arrow batches become record batches, sent five at a time to each broker.

    `topic_column`: the column `topic` chooses instead of `targets`. `staging`: rows are staged; None = Produce, in a
    `transaction` if there is one. `seed` spreads records without key."""

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
        """Connects. Raises NativeError."""
    def write(self, batch: object) -> None:
        """Rows of anything with `__arrow_c_array__`: columns value, and if there are key, topic, partition, headers,
        timestamp. Raises NativeError, ValueError for what is no Arrow data."""
    def finish(self) -> list[WrittenPartition]:
        """Waits for all answers. Raises NativeError; RuntimeError the second time."""

@final
class ArrowBatch:
    """Rows, for whoever imports Arrow data."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The Arrow PyCapsule interface: (schema, array)."""

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
    """Reads records as Arrow batches; `columns` as the data source names them."""

    def __new__(
        cls, settings: Mapping[str, str], offsets: SourceRange, columns: Sequence[str], cluster_id: str = ""
    ) -> ArrowSource:
        """Connects at the first `next`. Raises ValueError, NativeError."""
    @property
    def position(self) -> int:
        """The offset that is read next."""
    def next(self) -> ArrowBatch | None:
        """The next rows; None at the end of the range. Raises NativeError: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_ID …"""
