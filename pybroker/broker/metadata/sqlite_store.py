"""The embedded `MetadataStore`: SQLite, one file in the data directory, for a single broker.

Guarantees: when an operation returns, it is on disk (WAL with synchronous=FULL); a multi is one transaction; after a
crash the store opens with the last committed state. These guarantees require that fsync works. After a failed commit or
fsync the content of the disk is unknown. The store does not retry: it closes itself and reports the failure, and the
broker stops. There is one exception: if a full disk refuses a whole transaction, the store repeats it with space from
`disk_reserve`.

One thread owns the connection and the watches. Calls wait for this thread in a queue, in order, so the event loop never
waits for the disk. Watches fire in the order of the changes, before the caller of the change gets the result.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pybroker.broker.metadata.disk_reserve import DiskReserve
from pybroker.broker.metadata.metadata_store import (
    ANY_VERSION,
    SQLITE_FILE,
    Create,
    Delete,
    Node,
    NoNodeError,
    Operation,
    OperationResult,
    SessionState,
    Set,
    StoreClosedError,
    StoreError,
    Watch,
    WatchEvent,
    WatchKind,
)
from pybroker.broker.metadata.migration_marker import refuse_migrated
from pybroker.broker.metadata.node_table import NodeTable
from pybroker.errors import FatalError, StartError
from pybroker.files import DirectoryLock, fsync_directory
from pybroker.wall_clock import wall_ms

log = logging.getLogger(__name__)

LOCK_NAME = "metadata.lock"

FORMAT = 1
"""Version of the table layout. The store refuses a file with a newer version."""

APPLICATION_ID = 0x70796272
"""Marks the file as pybroker's ("pybr")."""

FULL_BYTES = 64 << 10
"""Approximate number of bytes that SQLite's files need when they are opened. A disk with less space counts as full."""

T = TypeVar("T")


class EmbeddedStore:
    """The embedded store; create it with `await EmbeddedStore.open(directory)`."""

    def __init__(
        self, directory: Path, loop: asyncio.AbstractEventLoop, on_fatal: Callable[[FatalError], None]
    ) -> None:
        self._path = directory / SQLITE_FILE
        self._lock = DirectoryLock(directory / LOCK_NAME)
        self._reserve = DiskReserve(directory)
        self._loop = loop
        self._on_fatal = on_fatal
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="metadata")
        self._connection: sqlite3.Connection | None = None
        self._table: NodeTable
        self._session_id = 0
        self._closed = False
        self._failure: FatalError | None = None
        self._listeners: list[Callable[[SessionState], None]] = []
        self._data_watches: dict[str, list[Watch]] = {}
        self._child_watches: dict[str, list[Watch]] = {}

    @classmethod
    async def open(
        cls,
        directory: Path,
        on_fatal: Callable[[FatalError], None] = lambda problem: None,
        *,
        sealed: bool = False,
    ) -> EmbeddedStore:
        """Open or create the store in `directory`. If a commit fails later, `on_fatal` is called on the event loop.
        With `sealed`, a store whose content has moved elsewhere is opened too.

        Raises StartError if another broker uses the directory, or if the file has a newer format, is damaged, is not
        pybroker's or is sealed.
        """
        if not sealed:
            refuse_migrated(directory)
        loop = asyncio.get_running_loop()
        store = cls(directory, loop, on_fatal)
        try:
            await loop.run_in_executor(store._executor, store._open)
        except BaseException:
            store._executor.shutdown(wait=False)
            raise
        return store

    # --- MetadataStore ------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        return self._session_id

    def starting(self, is_starting: bool) -> None:
        """Do nothing: the store is always reachable."""

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        node = await self._run(self._read, path, watch, False)
        if node is None:
            raise NoNodeError(path)
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        return await self._run(self._read, path, watch, True)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        result = await self._run(self._write_one, Create(path, data, ephemeral, sequential))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        result = await self._run(self._write_one, Set(path, data, version))
        assert isinstance(result, int)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._run(self._write_one, Delete(path, version))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._run(self._children, path, watch)

    async def subtree(self, path: str) -> dict[str, Node]:
        return await self._run(lambda: self._table.subtree(path))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self._run(self._write, operations)

    async def sync(self) -> None:
        await self._run(lambda: None)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._loop.run_in_executor(self._executor, self._close)
        self._executor.shutdown(wait=False)
        for listener in self._listeners:
            listener(SessionState.LOST)

    # --- on the store's thread ----------------------------------------------------------------------------------------

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        if self._failure is not None:
            raise StoreClosedError(str(self._failure))
        if self._closed:
            raise StoreClosedError("the metadata store is closed")
        try:
            return await self._loop.run_in_executor(self._executor, function, *arguments)
        except sqlite3.Error as problem:
            # After an SQLite error (full disk, I/O error, corruption), the state in memory may differ from the disk.
            raise self._fail(problem) from problem

    def _fail(self, problem: Exception) -> StoreClosedError:
        if self._failure is None:
            self._failure = FatalError(f"the metadata store {self._path} failed: {problem}")
            log.critical("%s; the broker stops", self._failure)
            self._on_fatal(self._failure)
        return StoreClosedError(str(self._failure))

    def _open(self) -> None:
        directory = self._path.parent
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except OSError as problem:
            raise StartError(f"log.dirs: cannot use {directory}: {problem.strerror}") from None
        try:
            while True:
                try:
                    self._open_locked()
                    break
                except sqlite3.Error as problem:
                    if not (_is_full(self._path.parent, problem) and self._reserve.release()):
                        raise
        except sqlite3.Error as problem:
            self._lock.release()
            raise self._cannot_open(problem) from problem
        except BaseException:
            self._lock.release()
            raise
        self._reserve.fill()

    def _cannot_open(self, problem: sqlite3.Error) -> StartError:
        if _is_full(self._path.parent, problem):
            return StartError(f"cannot open the metadata store {self._path}: the disk is full. Make room, start again.")
        return StartError(
            f"cannot open the metadata store {self._path}: {problem}. Restore it from a backup; if its disk "
            "has failed, repair the disk first. Nothing was changed."
        )

    def _open_locked(self) -> None:
        new = not self._path.exists()
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=True, cached_statements=64)
        try:
            if new:
                fsync_directory(self._path.parent)
            self._check_format(connection)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise sqlite3.DatabaseError(f"damaged: {damage}")
            connection.execute("BEGIN IMMEDIATE")
            self._table = NodeTable(connection, create=connection.execute("PRAGMA user_version").fetchone()[0] == 0)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            self._session_id = self._table.begin_session(wall_ms())
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application not in (0, APPLICATION_ID) or (application == 0 and version != 0):
            raise StartError(f"{self._path} is not a pybroker metadata store. Move it away. Nothing was changed.")
        if version > FORMAT:
            raise StartError(
                f"{self._path} has format {version}, and this version of pybroker reads up to {FORMAT}. Start the "
                "version that wrote it. Nothing was changed."
            )

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if self._failure is None:
                connection.execute("BEGIN IMMEDIATE")
                self._table.end_session(self._session_id, wall_ms())
                connection.execute("COMMIT")
        except sqlite3.Error as problem:
            log.critical("cannot close the metadata store path=%s: %s", self._path, problem)
        finally:
            connection.close()
            self._lock.release()

    def _read(self, path: str, watch: Watch | None, watch_missing: bool) -> Node | None:
        node = self._table.get(path)
        if watch is not None and (node is not None or watch_missing):
            self._data_watches.setdefault(path, []).append(watch)
        return node

    def _children(self, path: str, watch: Watch | None) -> list[str]:
        names = self._table.children(path)
        if watch is not None:
            self._child_watches.setdefault(path, []).append(watch)
        return names

    def _write_one(self, operation: Operation) -> OperationResult:
        try:
            return self._write([operation])[0]
        except StoreError as error:
            raise getattr(error, "cause", error) from None

    def _write(self, operations: Sequence[Operation]) -> list[OperationResult]:
        connection = self._connection
        if connection is None:
            raise StoreClosedError("the metadata store is closed")
        while True:
            try:
                results, events = self._commit(connection, operations)
                break
            except sqlite3.Error as problem:
                if problem.sqlite_errorcode != sqlite3.SQLITE_FULL or not self._reserve.release():
                    raise
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        self._reserve.fill()
        if self._data_watches or self._child_watches:
            self._fire(events)
        return results

    def _commit(
        self, connection: sqlite3.Connection, operations: Sequence[Operation]
    ) -> tuple[list[OperationResult], list[WatchEvent]]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = self._table.apply(operations, self._session_id, wall_ms())
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return done

    def _fire(self, events: list[WatchEvent]) -> None:
        for event in events:
            if event.kind is WatchKind.CHILDREN:
                watches = self._child_watches.pop(event.path, [])
            else:
                watches = self._data_watches.pop(event.path, [])
                if event.kind is WatchKind.DELETED:
                    watches += self._child_watches.pop(event.path, [])
            for watch in watches:
                self._loop.call_soon_threadsafe(watch, event)


def _is_full(directory: Path, problem: sqlite3.Error) -> bool:
    """Return whether a full disk caused the failure. SQLite reports a full disk as an I/O error while it opens a file.
    """
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return True
    if code not in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) or not hasattr(os, "statvfs"):
        return False
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize < FULL_BYTES
