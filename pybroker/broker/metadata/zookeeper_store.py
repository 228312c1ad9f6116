"""The `MetadataStore` of a cluster: Apache ZooKeeper, through kazoo.

kazoo works on its own thread. All its events (results, watches, session changes) reach the event loop through one
queue, in the order in which the server sent them.

Besides the contract of `MetadataStore`, callers must know:
- A read is retried after any connection error, for the length of a session timeout, or of a start while `starting` is
  set. Then it raises UnavailableError.
- A write is sent once. If the connection breaks before the response, its outcome is unknown: UnknownOutcomeError. A
  read after the reconnect shows the outcome.
- The session outlives a broken connection. SUSPENDED: it may or may not have ended. LOST: it has ended, with its
  ephemeral znodes, and every watch has fired with SESSION; kazoo opens a new session by itself and reports CONNECTED.
- Watches do not outlive the connection: at SUSPENDED each fires with SESSION.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kazoo import exceptions as kz
from kazoo.client import KazooClient, TransactionRequest
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from pybroker.broker.metadata.metadata_store import (
    ANY_VERSION,
    MULTI_BYTES_MAX,
    VALUE_BYTES_MAX,
    BadVersionError,
    Check,
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
    RefusedError,
    RolledBackError,
    SessionState,
    Set,
    StoreClosedError,
    StoreError,
    UnavailableError,
    UnknownOutcomeError,
    ValueTooLargeError,
    Watch,
    WatchEvent,
    WatchKind,
    check_path,
    ensure_path,
    operation_bytes,
)
from pybroker.broker.metadata.zookeeper_handler import LoopHandler
from pybroker.broker.metadata.zookeeper_reads import GET_DATA, READS_A_TURN_MAX, MultiRead, read_subtree, slices
from pybroker.errors import FatalError, StartError

log = logging.getLogger(__name__)

RECONNECT_DELAY_S = 0.05
RECONNECT_DELAY_MAX_S = 1.0
CONNECTIONS_A_SESSION_MIN = 3
"""Minimum number of connection attempts per session timeout. kazoo divides the session timeout by the number of hosts
to get its connection timeout. A starting server may accept the connection and never respond; the session must not end
because of this.
"""
CLOSE_S_MAX = 5.0
"""Time limit in seconds of a close. If the close takes longer, the server ends the session when the session timeout is
over."""

READS_A_REQUEST_MAX = 500
"""Limit of reads per `multiRead`. Partition states have a few hundred bytes, and the server builds the response in
memory.
"""

OPERATIONS_A_TURN_MAX = 200
"""Limit of operations of one multi that are processed in one step of the event loop."""

_REFUSALS: dict[type[Exception], type[StoreError]] = {
    kz.NoNodeError: NoNodeError,
    kz.NodeExistsError: NodeExistsError,
    kz.BadVersionError: BadVersionError,
    kz.NotEmptyError: NotEmptyError,
    kz.NoChildrenForEphemeralsError: NoChildrenForEphemeralsError,
    kz.RolledBackError: RolledBackError,
    kz.RuntimeInconsistency: RolledBackError,
}
_BROKEN = (kz.ConnectionLoss, kz.SessionExpiredError, kz.ConnectionClosedError, kz.OperationTimeoutError)
_KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHILD: WatchKind.CHILDREN,
    EventType.NONE: WatchKind.SESSION,
}


class Tls(NamedTuple):
    """PEM files for a TLS connection."""

    truststore: str | None
    """File with the trusted certificates; None: the certificates of the system."""
    keystore: str | None
    """File with the client's certificate and key."""
    key_password: str | None
    verify_hostname: bool


class ZooKeeperSettings(NamedTuple):
    """Settings of the connection to the ensemble."""

    connect: str
    """`host:port[,host:port…][/chroot]`, as in Kafka's `zookeeper.connect`."""
    session_timeout_ms: int
    connection_timeout_ms: int
    """Time limit for the first connection, and for each reconnect while the broker starts."""
    digest: str | None = None
    """`user:password` for ZooKeeper's digest scheme."""
    set_acl: bool = False
    """Whether only this user may change the znodes that pybroker creates."""
    tls: Tls | None = None


class ZooKeeperStore:
    """The ZooKeeper store; create it with `await ZooKeeperStore.open(settings, on_fatal)`."""

    def __init__(
        self, settings: ZooKeeperSettings, loop: asyncio.AbstractEventLoop, on_fatal: Callable[[FatalError], None]
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._on_fatal = on_fatal
        self._session_s = settings.session_timeout_ms / 1000
        self._patience_s = self._session_s
        self._connected = asyncio.Event()
        self._closed = False
        self._listeners: list[Callable[[SessionState], None]] = []
        self._was_connected = False
        self._handler = LoopHandler(loop, self._failed)
        self._sending = asyncio.Lock()
        """Keeps writes in the order of the calls, even after a multi that is built in several steps of the event loop.
        """
        tls, digest = settings.tls, settings.digest
        acl = None
        if settings.set_acl and digest is not None:
            user, _, password = digest.partition(":")
            acl = [make_digest_acl(user, password, all=True)]
        self._client = KazooClient(
            hosts=_repeated(settings.connect),
            timeout=self._session_s,
            handler=self._handler,
            default_acl=acl,
            auth_data=[("digest", digest)] if digest is not None else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_DELAY_S, backoff=2, max_delay=RECONNECT_DELAY_MAX_S
            ),
            logger=logging.getLogger("kazoo"),
            use_ssl=tls is not None,
            ca=tls.truststore if tls else None,
            certfile=tls.keystore if tls else None,
            keyfile=tls.keystore if tls else None,
            keyfile_password=tls.key_password if tls else None,
            check_hostname=tls.verify_hostname if tls else False,
        )

    @classmethod
    async def open(
        cls, settings: ZooKeeperSettings, on_fatal: Callable[[FatalError], None] = lambda problem: None
    ) -> ZooKeeperStore:
        """Connect, and create the chroot if it is missing. `on_fatal` is called on the event loop if the ensemble
        refuses the credentials later, or if a watcher fails (a bug).

        Raises StartError if no server responds within `connection_timeout_ms`, or the credentials are refused.
        """
        store = cls(settings, asyncio.get_running_loop(), on_fatal)
        try:
            await store._connect()
        except BaseException:
            await store.close()
            raise
        return store

    async def _connect(self) -> None:
        where = self._settings.connect
        self._client.add_listener(self._kazoo_state)
        self._client.start_async()
        try:
            await asyncio.wait_for(self._connected.wait(), self._settings.connection_timeout_ms / 1000)
        except TimeoutError:
            refused = self._client.client_state == KeeperState.AUTH_FAILED
            why = "ZooKeeper refused the credentials" if refused else "no server answered"
            raise StartError(
                f"zookeeper.connect={where}: {why} within zookeeper.connection.timeout.ms="
                f"{self._settings.connection_timeout_ms}"
            ) from None
        # kazoo adds the chroot to every path, even to the paths of the chroot's own znodes.
        chroot, self._client.chroot = self._client.chroot, ""
        try:
            if chroot:
                await ensure_path(self, chroot)
        except StoreError as problem:
            raise StartError(f"zookeeper.connect={where}: cannot create the chroot: {problem}") from None
        self._client.chroot = chroot

    # --- MetadataStore ------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    @property
    def session_timeout_ms(self) -> int:
        """The requested timeout; the server may have chosen another timeout."""
        return self._settings.session_timeout_ms

    def starting(self, is_starting: bool) -> None:
        patience_s = self._settings.connection_timeout_ms / 1000 if is_starting else 0.0
        self._patience_s = max(self._session_s, patience_s)

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        check_path(path)
        data, stat = await self._read(path, self._client.get_async, path, _watcher(path, watch))
        return _node(data, stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        check_path(path)
        while True:
            stat = await self._read(path, self._client.exists_async, path, _watcher(path, watch))
            if stat is None:
                return None
            # A second read gets the value. It needs no watch of its own, because the existing watch fires if the znode
            # changes in between.
            try:
                data, stat = await self._read(path, self._client.get_async, path)
            except NoNodeError:
                watch = None
                continue
            return _node(data, stat)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        check_path(path)
        _check_size(path, data)
        made = await self._write(
            path, self._client.create_async, path, data, None, ephemeral, sequential, False
        )
        assert isinstance(made, str)
        return made

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        check_path(path)
        _check_size(path, data)
        stat = await self._write(path, self._client.set_async, path, data, version)
        return int(stat.version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        await self._write(path, self._client.delete_async, path, version)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        check_path(path)
        names = await self._read(path, self._client.get_children_async, path, _watcher(path, watch))
        return sorted(names)

    async def subtree(self, path: str) -> dict[str, Node]:
        check_path(path)
        return await read_subtree(path, self._read_many, _node)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the znodes in order, None for each missing znode. The result is not a snapshot, because several
        requests read the znodes."""
        answers = await self._read_many(GET_DATA, paths)
        return [None if answer is None else _node(*answer) for answer in answers]

    async def _read_many(self, kind: int, paths: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        for turn in slices(paths, READS_A_TURN_MAX):
            requests = slices(turn, READS_A_REQUEST_MAX)
            for answers in await asyncio.gather(
                *(self._read(some[0], self._multi_read, kind, some) for some in requests)
            ):
                found += answers
        return found

    def _multi_read(self, kind: int, paths: Sequence[str]) -> Any:
        chroot = self._client.chroot
        request = MultiRead(kind, [path if not chroot else chroot if path == "/" else chroot + path for path in paths])
        result = self._handler.async_result()
        self._client._call(request, result)
        return result

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if not operations:
            return []
        await self._wait_connected(self._loop.time() + self._patience_s)
        async with self._sending:
            transaction = await self._transaction(operations)
            answer = self._begin(transaction.commit_async)
        results = await self._written("multi", answer)
        if any(isinstance(result, Exception) for result in results):
            errors = [
                _refusal(result, operation.path) if isinstance(result, Exception) else RolledBackError(operation.path)
                for operation, result in zip(operations, results, strict=True)
            ]
            index = next(place for place, error in enumerate(errors) if not isinstance(error, RolledBackError))
            raise MultiError(index, errors)
        return [_outcome(operation, result) for operation, result in zip(operations, results, strict=True)]

    async def _transaction(self, operations: Sequence[Operation]) -> TransactionRequest:
        """Build the transaction. This takes tens of milliseconds for thousands of operations, so other tasks run in
        between."""
        transaction = self._client.transaction()
        size = 0
        for begin in range(0, len(operations), OPERATIONS_A_TURN_MAX):
            if begin:
                await asyncio.sleep(0)
            end = begin + OPERATIONS_A_TURN_MAX
            size += _checked_bytes(operations, begin, end, size)
            for operation in operations[begin:end]:
                match operation:
                    case Create(path, data, ephemeral, sequential):
                        transaction.create(path, data, ephemeral=ephemeral, sequence=sequential)
                    case Set(path, data, version):
                        transaction.set_data(path, data, version)
                    case Delete(path, version):
                        transaction.delete(path, version)
                    case Check(path, version):
                        transaction.check(path, version)
        return transaction

    async def sync(self) -> None:
        await self._read("/", self._client.sync_async, "/")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._connected.clear()
        over = asyncio.Event()
        # Use a daemon thread, so that the process can end without waiting for it.
        threading.Thread(target=self._stop, args=(over,), name="zookeeper-close", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S_MAX):
                await over.wait()
        self._handler.disconnect()
        for listener in self._listeners:
            listener(SessionState.LOST)

    def _stop(self, over: asyncio.Event) -> None:
        with contextlib.suppress(kz.KazooException, OSError):
            self._client.stop()
            self._client.close()
        with contextlib.suppress(RuntimeError):  # The event loop is closed.
            self._loop.call_soon_threadsafe(over.set)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _read(self, path: str, call: Callable[..., Any], *arguments: Any) -> Any:
        deadline = self._loop.time() + self._patience_s
        while True:
            await self._wait_connected(deadline)
            try:
                return await self._call(call, *arguments)
            except _BROKEN:
                continue
            except kz.KazooException as problem:
                raise _refusal(problem, path) from None

    async def _write(self, path: str, call: Callable[..., Any], *arguments: Any) -> Any:
        await self._wait_connected(self._loop.time() + self._patience_s)
        async with self._sending:
            answer = self._begin(call, *arguments)
        return await self._written(path, answer)

    async def _written(self, path: str, answer: asyncio.Future[Any]) -> Any:
        try:
            return await answer
        except _BROKEN as problem:
            raise UnknownOutcomeError(f"{path}: lost the connection to ZooKeeper: {type(problem).__name__}") from None
        except kz.KazooException as problem:
            raise _refusal(problem, path) from None

    async def _wait_connected(self, deadline: float) -> None:
        if self._closed:
            raise StoreClosedError("the connection to ZooKeeper is closed")
        if self._connected.is_set():
            return
        try:
            await asyncio.wait_for(self._connected.wait(), max(0.0, deadline - self._loop.time()))
        except TimeoutError:
            raise UnavailableError(
                f"zookeeper.connect={self._settings.connect}: no connection for {self._patience_s:g} s"
            ) from None

    async def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await self._begin(call, *arguments)

    def _begin(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any) -> None:
            if future.done():
                return
            if result.exception is not None:
                future.set_exception(result.exception)
            else:
                future.set_result(result.value)

        call(*arguments).rawlink(done)
        return future

    # --- the session --------------------------------------------------------------------------------------------------

    def _kazoo_state(self, state: str) -> None:
        """Pass kazoo's state to the event loop; runs on kazoo's thread."""
        self._handler.queue.put(lambda: self._state_changed(state))

    def _state_changed(self, kazoo_state: str) -> None:
        if self._closed:
            return
        state: SessionState
        if kazoo_state == KazooState.CONNECTED:
            state = SessionState.RECONNECTED if self._was_connected else SessionState.CONNECTED
            self._was_connected = True
            self._connected.set()
        elif kazoo_state == KazooState.SUSPENDED:
            state = SessionState.SUSPENDED
            self._connected.clear()
        else:
            state = SessionState.LOST
            self._was_connected = False
            self._connected.clear()
            if self._client.client_state == KeeperState.AUTH_FAILED:
                self._on_fatal(
                    FatalError(f"zookeeper.connect={self._settings.connect}: ZooKeeper refused the credentials")
                )
        for listener in self._listeners:
            listener(state)

    def _failed(self, problem: Exception) -> None:
        log.critical("a metadata store watcher failed: this is a bug in pybroker", exc_info=problem)
        self._on_fatal(FatalError(f"a metadata store watcher failed: {type(problem).__name__}: {problem}"))


def _watcher(path: str, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
    if watch is None:
        return None
    callback = watch

    def fired(event: WatchedEvent) -> None:
        callback(WatchEvent(_KINDS.get(event.type, WatchKind.SESSION), path))

    return fired


def _node(data: bytes, stat: ZnodeStat) -> Node:
    return Node(data, stat.version, stat.czxid, stat.mzxid, stat.ctime, stat.ephemeralOwner)


def _refusal(problem: Exception, path: str) -> StoreError:
    for known, ours in _REFUSALS.items():
        if isinstance(problem, known):
            return ours(path)
    if isinstance(problem, kz.NoAuthError):
        return RefusedError(
            f"{path}: ZooKeeper denied access: the ACL of the node names another user than zookeeper.digest"
        )
    return StoreError(f"{path}: ZooKeeper refused: {type(problem).__name__} {problem}")


def _outcome(operation: Operation, result: Any) -> OperationResult:
    if isinstance(operation, Create):
        return str(result)
    if isinstance(operation, Set):
        return int(result.version)
    return None


def _repeated(connect: str) -> str:
    """Return the connect string with several copies of its host list. kazoo divides the session timeout among the hosts
    of the list, so the number of hosts is the number of attempts within the session timeout."""
    hosts, slash, chroot = connect.partition("/")
    times = -(-CONNECTIONS_A_SESSION_MIN // (hosts.count(",") + 1))
    return ",".join([hosts] * times) + slash + chroot


def _check_size(path: str, data: bytes) -> None:
    if len(data) > VALUE_BYTES_MAX:
        raise ValueTooLargeError(f"{path}: {len(data)} bytes, at most {VALUE_BYTES_MAX} are allowed")


def _checked_bytes(operations: Sequence[Operation], begin: int, end: int, before: int) -> int:
    """Return the size of these operations plus `before`, the bytes of earlier operations. Check the size before
    sending, because the server closes the connection if a packet is too large."""
    total = before
    for index, operation in enumerate(operations[begin:end], begin):
        problem: StoreError | None = None
        data = operation.data if isinstance(operation, Create | Set) else b""
        total += operation_bytes(operation)
        try:
            check_path(operation.path)
            _check_size(operation.path, data)
        except StoreError as found:
            problem = found
        if problem is None and total > MULTI_BYTES_MAX:
            problem = ValueTooLargeError(f"{operation.path}: the operations take more than {MULTI_BYTES_MAX} bytes")
        if problem is not None:
            errors: list[StoreError] = [RolledBackError(other.path) for other in operations]
            errors[index] = problem
            raise MultiError(index, errors)
    return total - before
