"""The tree of nodes in one SQLite table. Synchronous; called inside a transaction that the store begins and ends.

    node(parent, name) → data, version, children_version, zxids, owner        clustered on its key

A node's children are adjacent, so a list of 10 topics does not read their 10,000 partitions. A subtree consists of two
ranges of the key. The root is the row ("", "").
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from pybroker.broker.metadata.metadata_store import (
    ANY_VERSION,
    VALUE_BYTES_MAX,
    BadVersionError,
    Create,
    Delete,
    MultiError,
    NoChildrenForEphemeralsError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    OperationResult,
    RolledBackError,
    Set,
    StoreError,
    ValueTooLargeError,
    WatchEvent,
    WatchKind,
    check_path,
)

_SCHEMA = (
    """CREATE TABLE node (
        parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
        children_version INTEGER NOT NULL, created_zxid INTEGER NOT NULL, changed_zxid INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, owner INTEGER NOT NULL, PRIMARY KEY (parent, name)) WITHOUT ROWID""",
    "CREATE INDEX node_owner ON node (owner) WHERE owner <> 0",
    "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counter VALUES ('zxid', 0), ('session', 0)",
    "INSERT INTO node VALUES ('', '', x'', 0, 0, 0, 0, 0, 0)",
)
_COLUMNS = "data, version, created_zxid, changed_zxid, created_ms, owner"


def split(path: str) -> tuple[str, str]:
    """Return the key of a path: (the parent's path, "" for the root's children; the name)."""
    if path == "/":
        return "", ""
    at = path.rindex("/")
    return path[:at], path[at + 1 :]


class NodeTable:
    """Reads and changes the table. A sqlite3.Error is fatal; a StoreError means that an operation was refused."""

    def __init__(self, connection: sqlite3.Connection, *, create: bool) -> None:
        self._sql: Callable[..., sqlite3.Cursor] = connection.execute
        if create:
            for statement in _SCHEMA:
                self._sql(statement)
        self._zxid: int = self._counter("zxid")

    def _counter(self, name: str) -> int:
        value: int = self._sql("SELECT value FROM counter WHERE name = ?", (name,)).fetchone()[0]
        return value

    # --- sessions -----------------------------------------------------------------------------------------------------

    def begin_session(self, now_ms: int) -> int:
        """Remove the ephemeral nodes of the previous process, and return the new session's id."""
        self.end_session(None, now_ms)
        self._sql("UPDATE counter SET value = value + 1 WHERE name = 'session'")
        return self._counter("session")

    def end_session(self, session: int | None, now_ms: int) -> None:
        """Delete the ephemeral nodes of one session, or of all sessions."""
        if session is None:
            rows = self._sql("SELECT parent, name FROM node WHERE owner <> 0").fetchall()
        else:
            rows = self._sql("SELECT parent, name FROM node WHERE owner = ?", (session,)).fetchall()
        if rows:
            self.apply([Delete(f"{parent}/{name}") for parent, name in rows], 0, now_ms)

    # --- reads --------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Node | None:
        """Return the node or None."""
        check_path(path)
        row = self._sql(f"SELECT {_COLUMNS} FROM node WHERE parent = ? AND name = ?", split(path)).fetchone()
        return None if row is None else Node(*row)

    def children(self, path: str) -> list[str]:
        """Return the sorted names. Raises NoNodeError."""
        if self.get(path) is None:
            raise NoNodeError(path)
        key = "" if path == "/" else path
        rows = self._sql("SELECT name FROM node WHERE parent = ? AND name <> '' ORDER BY name", (key,))
        return [row[0] for row in rows]

    def subtree(self, path: str) -> dict[str, Node]:
        """Return all nodes below a path, by full path, ordered by (parent, name), so that parents come first."""
        check_path(path)
        key = "" if path == "/" else path
        # "0" is the character after "/", so the second range contains every parent that starts with `key/`.
        rows = self._sql(
            f"SELECT parent, name, {_COLUMNS} FROM node"
            " WHERE (parent = ?1 AND name <> '') OR (parent > ?1 || '/' AND parent < ?1 || '0') ORDER BY parent, name",
            (key,),
        )
        return {f"{row[0]}/{row[1]}": Node(*row[2:]) for row in rows}

    # --- changes ------------------------------------------------------------------------------------------------------

    def apply(
        self, operations: Sequence[Operation], session: int, now_ms: int
    ) -> tuple[list[OperationResult], list[WatchEvent]]:
        """Apply all operations as one change. Raises MultiError, which names the first operation that failed; the
        caller then rolls back.
        """
        change = _Change(self._sql, self._zxid + 1, session, now_ms)
        results: list[OperationResult] = []
        for index, operation in enumerate(operations):
            try:
                results.append(change.apply(operation))
            except StoreError as error:
                errors: list[StoreError] = [RolledBackError() for _ in operations]
                errors[index] = error
                raise MultiError(index, errors) from error
        if change.wrote:
            change.finish()
            self._sql("UPDATE counter SET value = ? WHERE name = 'zxid'", (change.zxid,))
            self._zxid = change.zxid
        return results, change.events


class _Change:
    """One multi. It caches parents, because for example the 10,000 partitions of a new topic have the same parent."""

    def __init__(self, sql: Callable[..., sqlite3.Cursor], zxid: int, session: int, now_ms: int) -> None:
        self._sql = sql
        self.zxid = zxid
        self._session = session
        self._now_ms = now_ms
        self._children_versions: dict[tuple[str, str], int] = {}
        self.events: list[WatchEvent] = []
        self.wrote = False

    def apply(self, operation: Operation) -> OperationResult:
        check_path(operation.path)
        if isinstance(operation, Create):
            return self._create(operation)
        if isinstance(operation, Set):
            return self._set(operation)
        if isinstance(operation, Delete):
            self._delete(operation)
        else:
            self._version(operation.path, operation.version)
        return None

    def finish(self) -> None:
        """Write the collected child versions to the parents."""
        for (parent, name), version in self._children_versions.items():
            self._sql("UPDATE node SET children_version = ? WHERE parent = ? AND name = ?", (version, parent, name))

    def _version(self, path: str, expected: int) -> int:
        row = self._sql("SELECT version FROM node WHERE parent = ? AND name = ?", split(path)).fetchone()
        if row is None:
            raise NoNodeError(path)
        if expected not in (ANY_VERSION, row[0]):
            raise BadVersionError(f"{path}: version {row[0]}, expected {expected}")
        version: int = row[0]
        return version

    def _count_child(self, parent_path: str, *, adding: bool) -> int:
        """Count an added or removed child of the node. Return the child version before the change."""
        key = split(parent_path or "/")
        version = self._children_versions.get(key)
        if version is None:
            row = self._sql("SELECT children_version, owner FROM node WHERE parent = ? AND name = ?", key).fetchone()
            if row is None:
                raise NoNodeError(parent_path)
            if adding and row[1] != 0:
                raise NoChildrenForEphemeralsError(parent_path)
            version = row[0]
            self.events.append(WatchEvent(WatchKind.CHILDREN, parent_path or "/"))
        self._children_versions[key] = version + 1
        return version

    def _create(self, operation: Create) -> str:
        _check_size(operation.path, operation.data)
        if operation.path == "/":
            raise NodeExistsError("/")
        parent, name = split(operation.path)
        number = self._count_child(parent, adding=True)
        if operation.sequential:
            name = f"{name}{number:010d}"
        path = f"{parent}/{name}"
        owner = self._session if operation.ephemeral else 0
        try:
            self._sql(
                "INSERT INTO node VALUES (?, ?, ?, 0, 0, ?, ?, ?, ?)",
                (parent, name, operation.data, self.zxid, self.zxid, self._now_ms, owner),
            )
        except sqlite3.IntegrityError:
            raise NodeExistsError(path) from None
        self.wrote = True
        self.events.append(WatchEvent(WatchKind.CREATED, path))
        return path

    def _set(self, operation: Set) -> int:
        _check_size(operation.path, operation.data)
        version = self._version(operation.path, operation.version) + 1
        self._sql(
            "UPDATE node SET data = ?, version = ?, changed_zxid = ? WHERE parent = ? AND name = ?",
            (operation.data, version, self.zxid, *split(operation.path)),
        )
        self.wrote = True
        self.events.append(WatchEvent(WatchKind.CHANGED, operation.path))
        return version

    def _delete(self, operation: Delete) -> None:
        path = operation.path
        if path == "/":
            raise NotEmptyError("/")
        self._version(path, operation.version)
        if self._sql("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)).fetchone() is not None:
            raise NotEmptyError(path)
        parent, name = split(path)
        self._count_child(parent, adding=False)
        self._sql("DELETE FROM node WHERE parent = ? AND name = ?", (parent, name))
        self._children_versions.pop((parent, name), None)
        self.wrote = True
        self.events.append(WatchEvent(WatchKind.DELETED, path))


def _check_size(path: str, data: bytes) -> None:
    if len(data) > VALUE_BYTES_MAX:
        raise ValueTooLargeError(f"{path}: {len(data)} bytes, at most {VALUE_BYTES_MAX}")
