"""`MetadataStore`: the one interface behind which the cluster's metadata lives, in ZooKeeper's shape.

Paths are absolute, without a trailing slash; every node has bytes, a version that counts its changes, and may have
children. The embedded store (one node, SQLite) and ZooKeeper (clusters) are held to one contract by
`tests/unit/metadata/test_store_contract.py`. Callers are on the loop's thread; watches and session events are
delivered there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

VALUE_BYTES_MAX = 1 << 20
"""ZooKeeper's `jute.maxbuffer` default; the embedded store keeps it so that nothing is stored that cannot move to a
cluster."""

MULTI_BYTES_MAX = VALUE_BYTES_MAX - 4096
"""Of one multi in ZooKeeper, where `jute.maxbuffer` bounds the whole request; the embedded store has no such limit."""

ANY_VERSION = -1


class StoreError(Exception):
    """An operation of the store was refused. Nothing was changed."""


class NoNodeError(StoreError):
    """The node, or the parent of a node to create, does not exist."""


class NodeExistsError(StoreError):
    """The node to create is there already."""


class BadVersionError(StoreError):
    """The node's version is not the expected one: somebody else changed it."""


class NotEmptyError(StoreError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemeralsError(StoreError):
    """An ephemeral node cannot have children."""


class InvalidPathError(StoreError):
    """The path is not absolute, ends with a slash, or has an empty, "." or ".." part."""


class ValueTooLargeError(StoreError):
    """The value is longer than VALUE_BYTES_MAX."""


class RolledBackError(StoreError):
    """In the results of a failed multi: this operation was fine, another one failed."""


class MultiError(StoreError):
    """A multi failed as a whole. `results` has one error for each operation, RolledBackError for those that were
    fine."""

    def __init__(self, index: int, results: Sequence[StoreError]) -> None:
        super().__init__(f"operation {index}: {results[index]!r}")
        self.index = index
        self.results = tuple(results)

    @property
    def cause(self) -> StoreError:
        """The error of the operation that failed first."""
        return self.results[self.index]


class RefusedError(StoreError):
    """This process may not do that (ZooKeeper only: ACLs)."""


class StoreClosedError(StoreError):
    """The store is closed, or stopped after a failure it cannot mend."""


class UnavailableError(StoreError):
    """The store cannot be reached (ZooKeeper only). Nothing was changed."""


class UnknownOutcomeError(StoreError):
    """The connection broke while a write was under way (ZooKeeper only): it was done, or it was not. Reads that follow
    see which."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A node's value and what the store knows about it."""

    data: bytes
    version: int
    created_zxid: int
    """Number of the change that made it: orders incarnations of one path."""
    changed_zxid: int
    created_ms: int
    """Wall time."""
    ephemeral_owner: int
    """The owner's session id, 0 for a persistent node."""


class Create(msgspec.Struct, frozen=True, gc=False):
    """Creates a node. Sequential nodes get ten digits appended. Result: the path."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(msgspec.Struct, frozen=True, gc=False):
    """Replaces a node's value. Result: the new version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Removes a node without children. Result: None."""

    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    """Demands a version. Result: None."""

    path: str
    version: int


Operation = Create | Set | Delete | Check
OperationResult = str | int | None


class WatchKind(Enum):
    """What happened to a watched node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    SESSION = "session"
    """The session is lost; the watch is gone and nothing is known."""


class WatchEvent(msgspec.Struct, frozen=True):
    """A watch fired. It fires once: read again to see the state and to watch on."""

    kind: WatchKind
    path: str


Watch = Callable[[WatchEvent], None]


class SessionState(Enum):
    """The store's view of this session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    LOST = "lost"


OPERATION_OVERHEAD_BYTES = 64
"""What one operation of a multi takes on ZooKeeper's wire besides its path and value, at most."""


def operation_bytes(operation: Operation) -> int:
    """What an operation takes of MULTI_BYTES_MAX, at most."""
    data = operation.data if isinstance(operation, Create | Set) else b""
    return OPERATION_OVERHEAD_BYTES + len(operation.path) + len(data)


PART_OPERATIONS_MAX = 2_000
"""Of what is written in parts: others have their turn in between."""


DECISION_BYTES_MAX = 900 * 1024
"""Of a multi of ours: what does not fit is cut where that may be done, also where the embedded store would take it."""


def operations_bytes(operations: Iterable[Operation]) -> int:
    """What operations take of a multi, at most."""
    return sum(map(operation_bytes, operations))


def at_seams(operations: Sequence[Operation], seams: Sequence[int]) -> list[Sequence[Operation]]:
    """As few multis as possible, each below DECISION_BYTES_MAX if the positions at which a new one may begin allow it;
    one, if everything fits."""
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
    """Cuts what need not be done at once into multis that every store takes, in order."""
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
    """All operations may raise StoreError subclasses; after a failure that leaves the state unknown,
    StoreClosedError."""

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes made by this process; never 0 while open."""
        ...

    def starting(self, is_starting: bool) -> None:
        """Whether the broker starts: nobody waits for its answers yet, so that calls wait for a store that is away as
        long as a start may."""
        ...

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        """Adds a listener for session events."""
        ...

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """The node. The watch fires when it is changed or deleted. NoNodeError (and no watch) if it does not exist."""
        ...

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        """The node or None. The watch fires when it is created, changed or deleted."""
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Creates a node and gives its path. NodeExistsError; NoNodeError without a parent;
        NoChildrenForEphemeralsError."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replaces the value and gives the new version. NoNodeError, BadVersionError."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Removes the node. NoNodeError, BadVersionError, NotEmptyError."""
        ...

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names of the children, sorted. The watch fires when a child comes or goes, or the node is deleted.
        NoNodeError."""
        ...

    async def subtree(self, path: str) -> dict[str, Node]:
        """All nodes below `path` (not itself) by full path, parents before children; empty if there is no such node.

        The bulk read of start-up: one statement in the embedded store, pipelined reads in ZooKeeper (there it is no
        snapshot).
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All or nothing; later operations see earlier ones. Raises MultiError with a result for each operation."""
        ...

    async def sync(self) -> None:
        """Afterwards reads see every write that was acknowledged to anybody before the call."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes are removed."""
        ...


def check_path(path: str) -> None:
    """Raises InvalidPathError unless the path is one both stores accept."""
    if path == "/":
        return
    if not path.startswith("/") or "\x00" in path:
        raise InvalidPathError(path)
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            raise InvalidPathError(path)


async def ensure_path(store: MetadataStore, path: str) -> None:
    """Creates `path` and its parents as far as they are missing (persistent, empty)."""
    at = ""
    for part in path[1:].split("/"):
        at += "/" + part
        try:
            await store.create(at)
        except NodeExistsError:
            continue


async def ensure_paths(store: MetadataStore, paths: Iterable[str]) -> None:
    """`ensure_path` of each; one commit for what is missing, none when all is there."""
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
        # Another broker of the cluster was faster.
        for path in missing:
            await ensure_path(store, path)


async def get_or_none(store: MetadataStore, path: str) -> Node | None:
    """The node, or None when it does not exist."""
    try:
        return await store.get(path)
    except NoNodeError:
        return None


def values(nodes: Mapping[str, Node], prefix: str) -> dict[str, Node]:
    """Of a subtree: the direct children of `prefix`, by name."""
    start = len(prefix) + 1
    return {
        path[start:]: node for path, node in nodes.items() if path.startswith(prefix + "/") and "/" not in path[start:]
    }
