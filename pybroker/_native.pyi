"""The native core as Python sees it. Only `pybroker.native` imports it.

Threads: every method may be called from any thread. Methods marked *blocking* touch the disk with the GIL
released; the event loop calls them through an executor. All times are milliseconds since the Unix epoch, all
sizes bytes. Where a method gives error codes they are Kafka's (0 = none)."""

from collections.abc import Sequence
from typing import Any, ClassVar, final

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
    def listener(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def connection_id(self) -> int: ...
    @property
    def message(self) -> object:
        """The decoded message: an instance of a class of `pybroker.protocol.messages`."""
    @property
    def cancelled(self) -> bool:
        """True once the connection is gone: an answer would reach nobody."""
    def reply(self, message: object) -> None:
        """Encodes the response for `api_version` and sends it. Raises CodecError if it does not fit
        the version (the request stays answerable), RuntimeError if it was answered before."""
    def close(self) -> None:
        """Drops the connection. Does nothing if it was answered before."""

@final
class Completion:
    """An append that `NativeBroker.append` started is committed, or has failed."""

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
class LogDirsFailed:
    """The last log directory has failed; the broker has to halt."""

    @property
    def reason(self) -> str: ...

# ----------------------------------------------------------------------------------------------------------
# Orders and what they are about

@final
class PartitionOrder:
    """One partition of a LeaderAndIsr request, already checked for controller and broker epoch."""

    def __new__(
        cls,
        topic_id: Uuid,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        isr: Sequence[int],
        replicas: Sequence[int],
        is_new: bool,
        config: dict[str, str],
    ) -> PartitionOrder:
        """`config`: all resolved topic settings under Kafka's names (give the same dict object to all
        partitions of a topic: it is parsed once). `is_new`: the controller creates it now; otherwise
        a directory that is missing although a log directory is offline is not created anew
        elsewhere."""
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

@final
class StopOrder:
    """One partition of a StopReplica request, already checked."""

    def __new__(cls, topic_id: Uuid, partition: int, leader_epoch: int, delete: bool) -> StopOrder:
        """`delete`: the directory moves to `deleting/{topic id in hex}_{partition}`; works for
        partitions that lie on disk without being hosted, too. `leader_epoch`: -1 none, -2 the topic
        is being deleted (KIP-516)."""

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
    def size_bytes(self) -> int: ...

@final
class LogDirPartition:
    """A partition in the answer of `describe_log_dirs`."""

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

# ----------------------------------------------------------------------------------------------------------
# Metadata published to the data plane

PartitionState = tuple[int, int, int, Sequence[int], Sequence[int], Sequence[int]]
"""(partition, leader or -1, leader epoch, isr, replicas, offline replicas)"""

TopicState = tuple[Uuid, str, bool, Sequence[PartitionState]]
"""(topic id, name, internal, all partitions)"""

BrokerState = tuple[int, str | None, Sequence[tuple[str, str, int]]]
"""(broker id, rack, [(listener, host, port)])"""

@final
class MetadataDelta:
    """A change of what clients see (R12). Removals take effect before changes, so a name may pass to a
    new topic in one delta."""

    def __new__(
        cls,
        *,
        brokers: Sequence[BrokerState] | None = None,
        controller_id: int | None = None,
        topics_changed: Sequence[TopicState] = (),
        topics_removed: Sequence[Uuid] = (),
    ) -> MetadataDelta:
        """`brokers`: all live brokers, None = unchanged. `controller_id`: -1 unknown, None =
        unchanged. Each changed topic comes with all of its partitions."""

# ----------------------------------------------------------------------------------------------------------
# The broker

Setting = int | float | str | bool | None

@final
class NativeBroker:
    """The data plane of one broker. Start order: constructor, start_log_dirs, open_listeners,
    apply_partitions, publish_metadata, start_accepting. Stop order: stop_accepting, shutdown (R24)."""

    def __new__(
        cls, *, broker_id: int, cluster_id: str, log_dirs: list[str], settings: dict[str, Setting]
    ) -> NativeBroker:
        """`settings`: resolved broker settings under Kafka's names; those that native code does not
        know are ignored. Raises ValueError naming a setting of a wrong type."""
    def start_log_dirs(self) -> list[LocalPartition]:
        """*Blocking.* Locks each directory, checks or writes meta.properties, scans. Raises
        LogDirError if a directory is in use or belongs to another cluster or broker, or if none is
        usable; a directory that fails with an I/O error while others work is offline from the
        start."""
    def open_listeners(self, listeners: list[tuple[str, str, int, str]]) -> list[tuple[str, str, int]]:
        """(name, host, port, security protocol) → (name, host, bound port). Connections are not
        accepted yet. An empty host means all addresses. Raises ListenerError."""
    def start_accepting(self) -> None: ...
    def wake_fd(self) -> int:
        """Becomes readable when the queue goes from empty to non-empty. For `loop.add_reader`; owned
        by this object."""
    def drain(self, max_items: int = 256) -> list[Request | Completion | LogDirsFailed]:
        """What has arrived, at most `max_items`, lanes in order of precedence (R13). Requests that
        cannot be decoded are answered here by closing their connection. Also writes native log lines
        to the logger `pybroker.native`. A full batch means there may be more: call again."""
    def apply_partitions(self, orders: Sequence[PartitionOrder]) -> list[int]:
        """*Blocking.* Creates or opens all logs at once (R7) and becomes leader; an error code for
        each order."""
    def stop_partitions(self, orders: Sequence[StopOrder]) -> list[int]:
        """*Blocking.* An error code for each order. Waiting produces and fetches of the partitions
        are answered."""
    def publish_metadata(self, delta: MetadataDelta) -> int:
        """Applies an ordered delta; requests that start after it see it. Returns the new version."""
    def set_topic_config(self, topic_id: Uuid, config: dict[str, str]) -> None:
        """All resolved settings of a topic under Kafka's names. Raises ValueError naming the setting
        that does not parse."""
    def set_broker_settings(self, settings: dict[str, Setting]) -> None:
        """Dynamic broker settings that native code obeys; others are ignored. Raises ValueError."""
    def append(
        self,
        topic_id: Uuid,
        partition: int,
        records: Sequence[tuple[bytes | None, bytes | None]],
        timestamp_ms: int,
    ) -> int:
        """Appends (key, value) records as one batch to a local leader with acks=all; gives a token at
        once. The Completion with that token, errors included (NOT_LEADER_OR_FOLLOWER,
        MESSAGE_TOO_LARGE, KAFKA_STORAGE_ERROR, …), comes by `drain`, in commit mode after the flush.
        Raises ValueError without records."""
    def read_records(
        self, topic_id: Uuid, partition: int, offset: int, max_bytes: int
    ) -> tuple[list[tuple[int, int, bytes | None, bytes | None]], int]:
        """*Blocking.* Records from `offset` on up to the log end, decompressed, control records left
        out: ([(offset, timestamp, key, value)], next offset). At least one batch if there is one; the
        end is reached when the next offset equals `offset`. Offsets below the log start begin there.
        Raises NativeError."""
    def partition_offsets(self, topic_id: Uuid, partition: int) -> PartitionOffsets | None:
        """None if the partition is not hosted here."""
    def delete_records(self, topic_id: Uuid, partition: int, offset: int) -> tuple[int, int]:
        """*Blocking.* Moves the log start up to `offset` (-1 = high watermark): (error code, low
        watermark or -1)."""
    def describe_log_dirs(self) -> list[LogDirInfo]:
        """*Blocking.*"""
    def staged_deletions(self) -> list[StagedDirectory]:
        """*Blocking.* What waits in `deleting/` of all log directories that are online."""
    def purge(self, path: str) -> int:
        """*Blocking.* Removes a staged directory for good; gives the bytes freed. Raises NativeError,
        ValueError for a path that is not in `deleting/`."""
    def stage_directory(self, directory: str) -> str:
        """*Blocking.* Moves a directory that the scan found, that has a topic id and that is not
        hosted, to `deleting/`; gives its new path. Raises NativeError, ValueError."""
    def metrics(self) -> str:
        """Prometheus text."""
    def stop_accepting(self) -> None:
        """Closes the listening sockets. Connections go on."""
    def shutdown(self, timeout_ms: int) -> None:
        """*Blocking.* Finishes produces, closes connections, flushes, writes snapshots, checkpoints
        and the clean-shutdown marker (R24). Past `timeout_ms` no marker is written and the next start
        recovers. Idempotent."""

# ----------------------------------------------------------------------------------------------------------
# The codec (PROTOCOL.md 1.5)

def encode(message: object, version: int) -> bytes:
    """The body of a message of `pybroker.protocol.messages` or `.interbroker`. Fields that `version` does not
    have are left out. Raises CodecError."""

def decode(api_key: int, version: int, data: bytes, request: bool, *, interbroker: bool = False) -> Any:
    """A message body. Left-over bytes are an error. Raises CodecError."""

def decode_data(name: str, version: int, data: bytes) -> Any:
    """Content of records or of other messages' bytes, by the name of its class (`OffsetCommitValue`): what
    follows the version in front of it. Raises CodecError."""

def encode_request(message: object, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """For clients: header and body of a request, without its length. Raises CodecError."""

def decode_response(api_key: int, version: int, frame: bytes, *, interbroker: bool = False) -> tuple[int, Any]:
    """For clients: (correlation id, message) of a response without its length. Raises CodecError."""

def message_class(name: str, *, interbroker: bool = False) -> type | None:
    """The class of a message or of a struct in it; None if there is none of that name."""

def message_names(*, interbroker: bool = False) -> list[str]:
    """The messages that a registry describes itself."""

def message_schema(
    name: str, *, interbroker: bool = False
) -> tuple[str, int | None, int, int, list[tuple[str, list[_FieldRow]]]] | None:
    """(kind, key, lowest version, highest version, [(class, fields)])."""

# (name, type, versions that have it, versions in which it may be null, default); versions are (first, last).
_FieldRow = tuple[str, str, tuple[int, int], tuple[int, int], str]

def api_table() -> list[tuple[int, str, int, int, str, bool]]:
    """(key, name, lowest, highest version on client listeners, "native" or "python", served) of every API."""

def error_code_table() -> list[tuple[int, str, bool]]:
    """(code, name, whether clients retry) of every error code."""

# ----------------------------------------------------------------------------------------------------------
# Functions of the data path, callable for measurement: the same code that serves the sockets

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
class HotResponse:
    """What a Produce or Fetch response is about, ready to be encoded."""

    def __new__(
        cls, api_key: int, version: int, topics: Sequence[tuple[str, Uuid, int]], records: bytes = b""
    ) -> HotResponse:
        """`topics`: (name, id, number of partitions); each partition of a Fetch response carries `records`. Raises
        ValueError for a version that is not served."""
    def encode(self) -> bytes:
        """The body."""

@final
class PartitionIndex:
    """The map topic id → partitions, name → topic id, as Produce and Fetch use it."""

    def __new__(cls, topics: Sequence[tuple[Uuid, str, int]]) -> PartitionIndex:
        """(topic id, name, number of partitions)"""
    def by_id(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the partition is there."""
    def by_name(self, topic: str, partition: int) -> bool:
        """The same, through the name."""
    def count_by_id(self, keys: bytes) -> int:
        """How many of the keys (16 bytes of id, 4 of partition, as on the wire) are there."""
    def count_by_name(self, names: Sequence[str], partition: int) -> int:
        """How many of the names have that partition."""
