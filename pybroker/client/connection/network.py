"""Connections to all brokers of a cluster: chooses the broker, reconnects and rebootstraps."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Awaitable, Callable, Iterable
from enum import IntEnum
from typing import Any, Literal, TypeVar

from pybroker.client.client_errors import (
    AuthenticationError,
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownHostError,
    UnknownTopicError,
    UnsupportedVersionError,
    broker_error,
    is_retriable,
)
from pybroker.client.cluster_metadata import Cluster, Node, TopicPartition
from pybroker.client.config import ClientConfig, addresses
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.broker_connection import BrokerConnection, address, needs_login
from pybroker.client.connection.client_metadata import ClientMetadata
from pybroker.client.connection.connection_errors import ConnectionErrors
from pybroker.client.connection.request_schema import request_schema
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import FindCoordinatorRequest

log = logging.getLogger(__name__)

Where = int | Literal["any", "controller"]
Result = TypeVar("Result")

LOST = (BrokerConnectionError, KafkaTimeoutError)
"""Errors of a failed connection. A retry with another broker or a new connection may succeed."""

_HUNG_UP_MAX = 2
"""Number of times in a row that a broker may close a connection on its first request. After that, the client concludes
that the broker requires SASL."""
_APPEARS_S = 2.0
"""Time in seconds after which every broker knows a new topic or partition."""
_LOOKUP_PATIENCE_S = 5.0
"""Seconds during which a broker's host name may be unknown. If brokers and their names are created together, a name may
become known a moment later.
"""
_LOOKUP_GAP_S = 30.0
"""If two failed look-ups are more seconds apart than this, they count as separate problems."""
_CLOSE_S = 2.0
"""Seconds that requests without a response (acks=0) get to be sent when the client closes."""


class _Place:
    """A node's connection and the time of its next attempt. hung_up: number of times in a row that the broker closed
    the connection on the first request after ApiVersions. unresolved: loop times of the first and the last of
    consecutive failed look-ups of the host name.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.connection: BrokerConnection | None = None
        self.lock = asyncio.Lock()
        self.backoff = backoff
        self.not_before = 0.0
        self.hung_up = 0
        self.unresolved: tuple[float, float] | None = None

    def lookup_failed(self, now: float) -> bool:
        """Whether the host name has been unknown for too long."""
        first, last = self.unresolved or (now, now)
        if now - last > _LOOKUP_GAP_S:
            first = now
        self.unresolved = first, now
        return now - first >= _LOOKUP_PATIENCE_S


class CoordinatorKind(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def shown(self) -> str:
        """The key type in messages."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


class Network:
    """All connections of one client. Owns `metadata` and keeps it up to date."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.metadata = ClientMetadata(config["client.id"])
        self._bootstrap = addresses(config)
        self._places: dict[tuple[str, int, str], _Place] = {}
        self._retired: list[BrokerConnection] = []
        self._refreshing: dict[frozenset[str] | None, asyncio.Task[Cluster]] = {}
        self.api_timeout_s = config.seconds("default.api.timeout.ms")
        self.trouble = ConnectionErrors(config["client.id"])
        self._last_response_at = float("-inf")
        self._bootstrap_by: float | None = None
        self._closed = False

    @property
    def cluster(self) -> Cluster:
        """The current metadata."""
        return self.metadata.cluster

    @property
    def last_response_at(self) -> float:
        """Loop time of the last response from any broker; minus infinity if there was none."""
        now = [place.connection.last_response_at for place in self._places.values() if place.connection is not None]
        return max((self._last_response_at, *now))

    # Connections --------------------------------------------------------------------------------------------

    async def connection(self, where: Where = "any", lane: str = "") -> BrokerConnection:
        """Return an open connection to a node. Raises BrokerConnectionError or KafkaTimeoutError if connecting fails,
        UnknownHostError if the host name has been unknown for too long.

        lane: name of a separate connection. Responses arrive in order, so a request that waits long at the broker (a
        JoinGroup, a fetch without data) would delay the others; such a request uses its own lane.
        """
        if where == "any":
            return await self._any()
        if where == "controller":
            if self.cluster.controller is None:
                await self.refresh(())
            controller = self.cluster.controller
            if controller is None:
                raise KafkaError(
                    ErrorCode.BROKER_NOT_AVAILABLE, "the cluster has no controller at the moment; retry later"
                )
            return await self._node(controller, lane)
        node = self.cluster.node(where)
        if node is None:
            await self.refresh(())
            node = self.cluster.node(where)
        if node is None:
            raise BrokerConnectionError(f"broker {where} is not running")
        return await self._node(node, lane)

    def ready(self, node_id: int) -> BrokerConnection | None:
        """Return the connection to a node if it is open now, else None."""
        node = self.cluster.node(node_id)
        place = self._places.get((node.host, node.port, "")) if node is not None else None
        connection = place.connection if place is not None else None
        return connection if connection is not None and connection.is_open else None

    async def _any(self) -> BrokerConnection:
        is_open = [
            place.connection
            for (_, _, lane), place in self._places.items()
            if not lane and place.connection and place.connection.is_open
        ]
        if is_open:
            return min(is_open, key=lambda each: each.in_flight)
        failure: Exception | None = None
        for node in random.sample(self.cluster.nodes, len(self.cluster.nodes)):
            try:
                return await self._node(node, "")
            except (*LOST, UnknownHostError) as error:
                failure = error
        if failure is not None and self.config["metadata.recovery.strategy"] == "none":
            raise failure
        if self.cluster.nodes:
            log.info("No known broker responds; connecting to bootstrap.servers again")
            self.metadata.forget_brokers()
        for host, port in random.sample(self._bootstrap, len(self._bootstrap)):
            try:
                return await self._open(host, port, None, "")
            except LOST as error:
                failure = error
        assert failure is not None, "there is at least one bootstrap server"
        raise failure

    async def _node(self, node: Node, lane: str) -> BrokerConnection:
        try:
            return await self._open(node.host, node.port, node.id, lane)
        except KafkaError as error:
            if error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                await self.rebootstrap(error)
                raise BrokerConnectionError(str(error.message)) from error
            raise

    async def _open(self, host: str, port: int, node_id: int | None, lane: str) -> BrokerConnection:
        place = self._places.get((host, port, lane))
        if place is None:
            config = self.config
            backoff = Backoff(config.seconds("reconnect.backoff.ms"), config.seconds("reconnect.backoff.max.ms"))
            place = self._places[host, port, lane] = _Place(backoff)
        if place.connection is not None and place.connection.is_open:
            return place.connection
        async with place.lock:
            if self._closed:
                raise BrokerConnectionError("the client is closed")
            if place.connection is not None and place.connection.is_open:
                return place.connection
            loop = asyncio.get_running_loop()
            pause = place.not_before - loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            if place.connection is not None:
                self._judge(place, place.connection)
                self._retire(place.connection)
                place.connection = None
            connection = await self._connect(place, host, port, node_id)
            if self._closed or self._places.get((host, port, lane)) is not place:
                connection.abort()
                raise BrokerConnectionError("the client was closed or restarted while it connected")
            place.connection = connection
            place.backoff.reset()
            place.unresolved = None
            self._last_response_at = loop.time()
            self.trouble.clear(connection.address)
            return connection

    async def _connect(self, place: _Place, host: str, port: int, node_id: int | None) -> BrokerConnection:
        checked = node_id is not None and self.config["metadata.cluster.check.enable"]
        try:
            return await BrokerConnection.open(
                host,
                port,
                self.config,
                cluster_id=self.cluster.id if checked else None,
                node_id=node_id if checked and node_id is not None else -1,
            )
        except Exception as error:
            now = asyncio.get_running_loop().time()
            place.not_before = now + place.backoff.next()
            # Before the first response, do not log the problem if the caller gets it as an exception. Log it if another
            # attempt follows.
            if isinstance(error, LOST) and (self.last_response_at > float("-inf") or self._bootstrap_left_s > 0):
                self.trouble.report(address(host, port), error)
            cause = error.__cause__
            if node_id is not None and isinstance(cause, socket.gaierror) and place.lookup_failed(now):
                raise UnknownHostError(address(host, port), cause.strerror or str(cause)) from cause
            raise

    def _judge(self, place: _Place, lost: BrokerConnection) -> None:
        """Record why a connection was lost. Raises AuthenticationError if the broker seems to require a login."""
        if isinstance(lost.failure, KafkaTimeoutError):
            self.trouble.report(lost.address, lost.failure)
        place.hung_up = place.hung_up + 1 if lost.hung_up_at_first else 0
        if place.hung_up >= _HUNG_UP_MAX:
            place.hung_up = 0
            place.connection = None
            raise AuthenticationError(
                (
                    f"{lost.address} answers ApiVersions but closes the connection on the first request, like a "
                    f"listener with another security.protocol: {needs_login(self.config['security.protocol'])}"
                ),
                ErrorCode.ILLEGAL_SASL_STATE,
            )

    def _retire(self, connection: BrokerConnection) -> None:
        """Close a connection when its last response has arrived, or when the client closes."""
        self._last_response_at = max(self._last_response_at, connection.last_response_at)
        connection.retire()
        self._retired = [each for each in (*self._retired, connection) if each.in_flight]

    async def rebootstrap(self, reason: KafkaError) -> None:
        """Drop all known brokers and connections: the next request begins with `bootstrap.servers` again (KIP-899)."""
        if self.config["metadata.recovery.strategy"] == "none":
            raise reason
        log.warning("Restarting from bootstrap.servers: %s", reason.message)
        self.metadata.forget_brokers()
        places, self._places = self._places, {}
        for place in places.values():
            if place.connection is not None:
                self._last_response_at = max(self._last_response_at, place.connection.last_response_at)
                place.connection.abort()

    async def close(self) -> None:
        """Close all connections; wait at most 2 seconds for unsent data."""
        self._closed = True
        refreshing = list(self._refreshing.values())
        for task in refreshing:
            task.cancel()
        await asyncio.gather(*refreshing, return_exceptions=True)
        for connection in self._retired:
            connection.abort()
        connections = [place.connection for place in self._places.values() if place.connection is not None]
        await asyncio.gather(*(each.close(_CLOSE_S) for each in connections))

    def close_idle(self) -> None:
        """Close connections unused for `connections.max.idle.ms`."""
        limit = self.config.seconds("connections.max.idle.ms")
        if limit < 0:
            return
        now = asyncio.get_running_loop().time()
        for place in self._places.values():
            connection = place.connection
            if connection is not None and not connection.in_flight and now - connection.last_used > limit:
                self._last_response_at = max(self._last_response_at, connection.last_response_at)
                connection.abort()
                place.connection = None

    # Metadata -----------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> Cluster:
        """Fetch metadata of brokers and some topics (None: all). Concurrent calls for the same topics wait for one
        request.

        Raises the same errors as `ask`; errors of single topics are in the result.
        """
        requested = None if topics is None else frozenset(topics)
        task = self._refreshing.get(requested)
        if task is None:
            task = asyncio.create_task(self._refresh(requested, create))
            self._refreshing[requested] = task
            task.add_done_callback(lambda _: self._refreshing.pop(requested, None))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            ours = asyncio.current_task()
            if self._closed and task.cancelled() and not (ours is not None and ours.cancelling()):
                raise BrokerConnectionError("the client is closed") from None
            raise

    async def _refresh(self, topics: frozenset[str] | None, create: bool) -> Cluster:
        async def ask(connection: BrokerConnection) -> Cluster:
            request = self.metadata.request(topics, create=create)
            if topics is not None and not topics and connection.versions[3][1] < 1:
                raise UnsupportedVersionError("the broker's Metadata version cannot omit topics")
            response = await connection.request(request)
            if response.error_code:
                error = broker_error(response.error_code, about="metadata")
                if error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                    await self.rebootstrap(error)
                raise error
            self.close_idle()
            return self.metadata.update(response, asyncio.get_running_loop().time(), whole=topics is None)

        return await self.attempt("any", ask, about="metadata")

    async def existing(self, partitions: Iterable[TopicPartition]) -> Cluster:
        """Wait until the metadata includes these partitions, and return the metadata. Brokers learn about new
        partitions with a delay.

        Raises UnknownTopicError if a partition does not exist, KafkaError if the caller may not see a topic.
        """
        requested = list(partitions)
        loop = asyncio.get_running_loop()
        since: float | None = None

        async def look(_: BrokerConnection) -> Cluster:
            nonlocal since
            cluster = await self.refresh({each.topic for each in requested})
            for each in requested:
                topic = cluster.by_name.get(each.topic)
                if topic is not None and topic.error_code and not is_retriable(topic.error_code):
                    raise broker_error(topic.error_code, about=str(each))
                if cluster.partition(each) is None:
                    since = since or loop.time()
                    error = broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, cluster.absence(each))
                    if loop.time() - since > _APPEARS_S:
                        raise UnknownTopicError(error.code, error.message)
                    raise error
            return cluster

        return await self.attempt("any", look, about="metadata")

    # Asking -------------------------------------------------------------------------------------------------

    async def ask(self, message: Any, where: Where = "any", *, timeout_s: float | None = None) -> Any:
        """Send a message on a working connection and return the response. The caller checks error codes in it.

        If the connection breaks, the request is sent again. Use this only for requests that do no harm if the broker
        executes them twice.
        """
        about = request_schema(type(message)).name
        return await self.attempt(where, lambda each: each.request(message, timeout_s=timeout_s), about=about)

    async def attempt(
        self,
        where: Where | Callable[[], Awaitable[int]],
        work: Callable[[BrokerConnection], Awaitable[Result]],
        *,
        timeout_s: float | None = None,
        lane: str = "",
        about: str = "",
        failed: Callable[[Exception], None] = lambda _: None,
    ) -> Result:
        """Run `work` with a connection. Retry with backoff on a connection error or a retriable KafkaError.

        Raises the last failure after `timeout_s` seconds (None = `default.api.timeout.ms`). where: a node, or a
        function that returns the node for each attempt. about: the subject in the message of a timeout. failed:
        function that is called with each failure.
        """
        loop = asyncio.get_running_loop()
        limit = self.api_timeout_s if timeout_s is None else timeout_s
        if self.last_response_at == float("-inf") and self._bootstrap_left_s > 0:
            limit += self._bootstrap_left_s
        backoff = Backoff(self.config.seconds("retry.backoff.ms"), self.config.seconds("retry.backoff.max.ms"))
        failure: Exception | None = None
        moved = False
        try:
            async with asyncio.timeout(limit) as scope:
                while True:
                    try:
                        if moved:
                            await self.refresh(())
                        node = await where() if callable(where) else where
                        return await work(await self.connection(node, lane))
                    except (*LOST, KafkaError) as error:
                        failed(error)
                        failure = error
                        pause = backoff.next()
                        if not self._helps(error) or loop.time() + pause > (scope.when() or 0.0):
                            raise
                        # The controller may have moved, even if the error says that the previous controller is
                        # unreachable.
                        not_it = isinstance(error, KafkaError) and error.code == ErrorCode.NOT_CONTROLLER
                        moved = not_it or (where == "controller" and not isinstance(error, KafkaError))
                    await asyncio.sleep(pause)
        except TimeoutError as late:
            if not scope.expired():
                raise
            allowed = f"{limit:.3g} s" if timeout_s is not None else f"default.api.timeout.ms={limit * 1000:.0f}"
            source = " from the controller" if where == "controller" else ""
            text = f"no response{source} within {allowed}"
            raise self.overdue(f"{about}: {text}" if about else text, failure) from late

    def _helps(self, error: Exception) -> bool:
        """Return whether another attempt may succeed."""
        if isinstance(error, KafkaError):
            return error.retriable and not isinstance(error, UnknownTopicError)
        # Before the first response, retries would only hide a wrong address. Retry only if bootstrap.wait.ms is set.
        return not self._closed and (self.last_response_at > float("-inf") or self._bootstrap_left_s > 0)

    @property
    def _bootstrap_left_s(self) -> float:
        """Seconds that remain of `bootstrap.wait.ms`. The time counts from the first read of this property."""
        now = asyncio.get_running_loop().time()
        if self._bootstrap_by is None:
            self._bootstrap_by = now + self.config.seconds("bootstrap.wait.ms")
        return self._bootstrap_by - now

    def overdue(self, what: str, failure: Exception | None = None) -> KafkaTimeoutError:
        """Return a timeout error with a cause: the last failure, or else the current connection errors."""
        cause = failure if isinstance(failure, KafkaError) else self.trouble.cause or failure
        error = KafkaTimeoutError(f"{what}: {cause}" if cause is not None else what)
        error.__cause__ = cause
        return error

    async def coordinator(self, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> int:
        """Return the id of the coordinator of a group or a transactional id. Raises KafkaError if there is none;
        COORDINATOR_NOT_AVAILABLE is retriable.
        """

        async def ask(connection: BrokerConnection) -> Any:
            highest = connection.highest(FindCoordinatorRequest)
            request = FindCoordinatorRequest(key=key, key_type=int(kind), coordinator_keys=[key])
            answer = await connection.request(request, min(highest, request_schema(FindCoordinatorRequest).highest))
            return answer.coordinators[0] if highest >= 4 else answer

        answer = await self.ask_once(ask)
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about=f"coordinator of {kind.shown} {key}")
        if self.cluster.node(answer.node_id) is None:
            await self.refresh(())
        return int(answer.node_id)

    async def ask_once(self, work: Callable[[BrokerConnection], Awaitable[Result]]) -> Result:
        """Run `work` with any connection, without retries."""
        return await work(await self.connection("any"))
