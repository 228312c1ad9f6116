"""`MetadataStore`: the interface to the store of the cluster's metadata, in ZooKeeper's form.

Paths are absolute, without a trailing slash. Every node has bytes and a version that counts its changes, and may have
children. The embedded store (one broker, SQLite) and ZooKeeper (clusters) pass the same contract test,
`tests/unit/metadata/test_store_contract.py`. Callers are on the event loop's thread. Watches and session events also
run there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

VALUE_BYTES_MAX = 1 << 20
"""ZooKeeper's default of `jute.maxbuffer`. The embedded store has the same limit, so that all its values can move to a
cluster.
"""

MULTI_BYTES_MAX = VALUE_BYTES_MAX - 4096
"""Size limit of one multi in ZooKeeper, because `jute.maxbuffer` limits the whole request. The embedded store has no
such limit."""

ANY_VERSION = -1

SQLITE_FILE = "metadata.db"
"""The embedded store, in the first log directory. Here, because only that store may import sqlite3."""


class StoreError(Exception):
    """The store refused an operation and changed nothing."""


class NoNodeError(StoreError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExistsError(StoreError):
    """The node to create exists already."""


class BadVersionError(StoreError):
    """The node does not have the expected version: another process has changed it."""


class NotEmptyError(StoreError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral node cannot have children."""


class InvalidPathError(StoreError):
    """The path is not absolute, ends with a slash, or has an empty, "." or ".." part."""


class ValueTooLargeError(StoreError):
    """The value is longer than VALUE_BYTES_MAX."""


class RolledBackError(StoreError):
    """In the results of a failed multi: this operation was valid, but another operation failed."""


class MultiError(StoreError):
    """A multi failed as a whole. `results`: one error per operation; it is RolledBackError for valid operations."""

    def __init__(self, index: int, results: Sequence[StoreError]) -> None:
        super().__init__(f"operation {index}: {results[index]!r}")
        self.index = index
        self.results = tuple(results)

    @property
    def cause(self) -> StoreError:
        """The error of the first operation that failed."""
        return self.results[self.index]


class RefusedError(StoreError):
    """ZooKeeper's ACLs do not permit the operation to this process."""


class StoreClosedError(StoreError):
    """The store is closed, or has stopped after a failure from which it cannot recover."""


class UnavailableError(StoreError):
    """The store is unreachable (ZooKeeper only). Nothing was changed."""


class UnknownOutcomeError(StoreError):
    """The connection broke during a write to ZooKeeper, which may have succeeded. A later read shows the outcome."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node's value and metadata."""

    data: bytes
    version: int
    created_zxid: int
    """Number of the transaction that created the node. It distinguishes nodes that had the same path at different
    times."""
    changed_zxid: int
    created_ms: int
    """Wall time of the last change."""
    ephemeral_owner: int
    """The session id of the owner; 0 for a persistent node."""


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a node. A sequential node's name gets ten digits appended. Result: the path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(msgspec.Struct, frozen=True, gc=False):
    """Replace a node's value. Result: the new version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Remove a node without children. Result: None."""

    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    """Check a node's version. Result: None."""

    path: str
    version: int


Operation = Create | Set | Delete | Check
OperationResult = str | int | None


class WatchKind(Enum):
    """How a watched node has changed."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    SESSION = "session"
    """The session is lost; the watch is removed, and changes may have been missed."""


class WatchEvent(msgspec.Struct, frozen=True):
    """The event of a watch. A watch fires once. To see the new state and to set a new watch, read again."""

    kind: WatchKind
    path: str


Watch = Callable[[WatchEvent], None]


class SessionState(Enum):
    """The state of this process's session with the store."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    LOST = "lost"


OPERATION_OVERHEAD_BYTES = 64
"""Upper limit of the overhead, in bytes, of one operation in a ZooKeeper multi, in addition to its path and value."""


def operation_bytes(operation: Operation) -> int:
    """Return an upper limit of the bytes of an operation, for comparison with MULTI_BYTES_MAX."""
    data = operation.data if isinstance(operation, Create | Set) else b""
    return OPERATION_OVERHEAD_BYTES + len(operation.path) + len(data)


PART_OPERATIONS_MAX = 2_000
"""Limit of operations that are processed without a pause. Other tasks run in the pauses."""


DECISION_BYTES_MAX = 900 * 1024
"""Size limit of one multi of a decision. A larger change is split where a split is allowed, even if the embedded store
would accept the whole change."""


def operations_bytes(operations: Iterable[Operation]) -> int:
    """Return an upper limit of the size of operations in a multi."""
    return sum(map(operation_bytes, operations))


def at_seams(operations: Sequence[Operation], seams: Sequence[int]) -> list[Sequence[Operation]]:
    """Split operations into as few multis as possible. Each is smaller than DECISION_BYTES_MAX if the allowed split
    points (`seams`) permit it."""
    if operations_bytes(operations) <= DECISION_BYTES_MAX:
        return [operations]
    ends = [*(seam for seam in seams if seam), len(operations)]
    parts: list[Sequence[Operation]] = []
    begin = at = size = 0
    for end in ends:
        taken = operations_bytes(operations[at:end])
        if at > begin and size + taken > DECISION_BYTES_MAX:
            parts.append(operations[begin:at])
            begin, size = at, 0
        at, size = end, size + taken
    parts.append(operations[begin:])
    return parts


def in_parts(operations: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """Split operations that need not be atomic into multis that every store accepts. The order stays."""
    part: list[Operation] = []
    size = 0
    for operation in operations:
        taken = operation_bytes(operation)
        if part and (size + taken > MULTI_BYTES_MAX // 2 or len(part) >= PART_OPERATIONS_MAX):
            yield part
            part, size = [], 0
        part.append(operation)
        size += taken
    if part:
        yield part


class MetadataStore(Protocol):
    """The interface of a metadata store. All operations may raise subclasses of StoreError. After a failure that leaves
    the state unknown, all raise StoreClosedError."""

    @property
    def session_id(self) -> int:
        """Id of the session that owns this process's ephemeral nodes; never 0 while the store is open."""
        ...

    def starting(self, is_starting: bool) -> None:
        """Set whether the broker is starting. During the start no client waits for the broker, so calls wait longer for
        an unreachable store."""
        ...

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        """Add a listener for session events."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """Return the node. The watch fires when the node is changed or deleted. If the node does not exist, raise
        NoNodeError and set no watch.
        """
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        """Return the node, or None if it does not exist. The watch fires when the node is created, changed or deleted.
        """
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Create a node and return its path. Raises NodeExistsError if it exists, NoNodeError if its parent does not
        exist, NoChildrenForEphemeralsError if its parent is ephemeral.
        """
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace the value and return the new version. Raises NoNodeError if the node does not exist, BadVersionError
        if it has another version.
        """
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove the node. Raises NoNodeError if the node does not exist, BadVersionError if it has another version,
        NotEmptyError if it has children.
        """
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the sorted names of the children. The watch fires when a child is added or removed, or the node is
        deleted. Raises NoNodeError if the node does not exist.
        """
        ...

    async def subtree(self, path: str) -> dict[str, Node]:
        """Return all nodes below `path` (without itself) by full path, parents before children; empty if it does not
        exist.

        Used for the bulk read at the start: one statement in the embedded store, pipelined reads in ZooKeeper (where
        the result is not a snapshot).
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Apply all operations or none. Later operations see the effect of earlier operations. If an operation is
        invalid, raise MultiError with the error of each operation.
        """
        ...

    async def sync(self) -> None:
        """Ensure that later reads see every write that the store acknowledged to any client before the call."""
        ...

    async def close(self) -> None:
        """End the session and remove its ephemeral nodes."""
        ...


def check_path(path: str) -> None:
    """Raise InvalidPathError unless both the embedded store and ZooKeeper accept the path."""
    if path == "/":
        return
    if not path.startswith("/") or "\x00" in path:
        raise InvalidPathError(path)
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            raise InvalidPathError(path)


async def ensure_path(store: MetadataStore, path: str) -> None:
    """Create `path` and its missing parents (persistent, empty)."""
    at = ""
    for part in path[1:].split("/"):
        at += "/" + part
        try:
            await store.create(at)
        except NodeExistsError:
            continue


async def ensure_paths(store: MetadataStore, paths: Iterable[str]) -> None:
    """Create each path and its missing parents. One commit creates all missing nodes. If no node is missing, there is
    no commit."""
    looked_at: set[str] = set()
    missing: list[str] = []
    for path in paths:
        lacking: list[str] = []
        at = path
        while at and at not in looked_at:
            looked_at.add(at)
            if await store.exists(at) is not None:
                break
            lacking.append(at)
            at = at.rpartition("/")[0]
        missing += reversed(lacking)
    if not missing:
        return
    try:
        await store.multi([Create(path) for path in missing])
    except MultiError:
        # Another broker of the cluster has created one of the nodes first.
        for path in missing:
            await ensure_path(store, path)


async def get_or_none(store: MetadataStore, path: str) -> Node | None:
    """Return the node, or None if it does not exist."""
    try:
        return await store.get(path)
    except NoNodeError:
        return None


def values(nodes: Mapping[str, Node], prefix: str) -> dict[str, Node]:
    """Return the direct children of `prefix` by name. `nodes`: a subtree."""
    start = len(prefix) + 1
    return {
        path[start:]: node for path, node in nodes.items() if path.startswith(prefix + "/") and "/" not in path[start:]
    }


class MetadataSession(Protocol):
    """The connection to the metadata store or the metadata quorum."""

    state: SessionState
    event_counts: dict[SessionState, int]
    """Session event → number of occurrences since the start."""

    @property
    def connected(self) -> bool:
        """Whether the controller can make decisions now."""
        ...


class StoreSession:
    """Counts the store's session events. An embedded store is always connected."""

    def __init__(self, store: MetadataStore) -> None:
        self.state = SessionState.CONNECTED
        self.event_counts: dict[SessionState, int] = dict.fromkeys(SessionState, 0)
        """Session event → number of occurrences since the start."""
        store.on_session(self._changed)

    @property
    def connected(self) -> bool:
        """Whether the store is reachable."""
        return self.state in (SessionState.CONNECTED, SessionState.RECONNECTED)

    def _changed(self, state: SessionState) -> None:
        self.state = state
        self.event_counts[state] += 1
