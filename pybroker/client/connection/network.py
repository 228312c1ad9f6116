"""Connections to all brokers of a cluster: which one is asked, when to reconnect, when to start over."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeVar

from pybroker.client.cluster import Cluster, Node
from pybroker.client.config import ClientConfig, addresses
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.broker_connection import BrokerConnection, message_facts
from pybroker.client.connection.metadata import Metadata
from pybroker.client.errors import (
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicError,
    UnsupportedVersionError,
    broker_error,
    is_retriable,
)
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import FindCoordinatorRequest

log = logging.getLogger(__name__)

Where = int | Literal["any", "controller"]
Result = TypeVar("Result")

LOST = (BrokerConnectionError, KafkaTimeoutError)
"""What a connection that fails raises: worth another attempt, elsewhere."""


class _Place:
    """One node: its connection, and when it may be tried again."""

    def __init__(self, backoff: Backoff) -> None:
        self.connection: BrokerConnection | None = None
        self.lock = asyncio.Lock()
        self.backoff = backoff
        self.not_before = 0.0


class Network:
    """All connections of one client. `metadata` is kept up to date through it."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.metadata = Metadata(config["client.id"])
        self._bootstrap = addresses(config)
        self._places: dict[tuple[str, int, str], _Place] = {}
        self._retired: list[BrokerConnection] = []
        self._refreshing: dict[frozenset[str] | None, asyncio.Task[Cluster]] = {}
        self.api_timeout_s = config.seconds("default.api.timeout.ms")
        self._reachable_at = float("-inf")
        self._closed = False

    @property
    def cluster(self) -> Cluster:
        """The current metadata."""
        return self.metadata.cluster

    # Connections --------------------------------------------------------------------------------------------

    async def connection(self, where: Where = "any", lane: str = "") -> BrokerConnection:
        """An open connection to a node. Raises BrokerConnectionError, KafkaTimeoutError, KafkaError.

        lane: answers come in order, so what waits long at the broker (a group's join, a fetch without data) has a
        connection of its own.
        """
        if where == "any":
            return await self._any()
        if where == "controller":
            if self.cluster.controller is None:
                await self.refresh(())
            controller = self.cluster.controller
            if controller is None:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster has no controller at the moment")
            return await self._node(controller, lane)
        node = self.cluster.node(where)
        if node is None:
            await self.refresh(())
            node = self.cluster.node(where)
        if node is None:
            raise BrokerConnectionError(f"there is no broker {where} at the moment")
        return await self._node(node, lane)

    def ready(self, node_id: int) -> BrokerConnection | None:
        """The connection to a node if it is open now."""
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
            except LOST as error:
                failure = error
        if failure is not None and self.config["metadata.recovery.strategy"] == "none":
            raise failure
        if self.cluster.nodes:
            log.info("No known broker answers; asking bootstrap.servers again")
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
            checked = node_id is not None and self.config["metadata.cluster.check.enable"]
            if place.connection is not None:
                self._retire(place.connection)
            try:
                connection = await BrokerConnection.open(
                    host,
                    port,
                    self.config,
                    cluster_id=self.cluster.id if checked else None,
                    node_id=node_id if checked and node_id is not None else -1,
                )
            except Exception:
                place.not_before = loop.time() + place.backoff.next()
                raise
            if self._closed or self._places.get((host, port, lane)) is not place:
                connection.abort()
                raise BrokerConnectionError("the client was closed, or starts over, while it connected")
            place.connection = connection
            place.backoff.reset()
            self._reachable_at = loop.time()
            return connection

    def _retire(self, connection: BrokerConnection) -> None:
        """It ends with its last answer, or with us."""
        connection.retire()
        self._retired = [each for each in (*self._retired, connection) if each.in_flight]

    async def rebootstrap(self, reason: KafkaError) -> None:
        """Forgets every broker and connection: the next request starts at `bootstrap.servers` (KIP-899)."""
        if self.config["metadata.recovery.strategy"] == "none":
            raise reason
        log.warning("Starting over from bootstrap.servers: %s", reason.message)
        self.metadata.forget_brokers()
        places, self._places = self._places, {}
        for place in places.values():
            if place.connection is not None:
                place.connection.abort()

    async def close(self) -> None:
        """Closes all connections."""
        self._closed = True
        refreshing = list(self._refreshing.values())
        for task in refreshing:
            task.cancel()
        await asyncio.gather(*refreshing, return_exceptions=True)
        for connection in self._retired:
            connection.abort()
        for place in list(self._places.values()):
            if place.connection is not None:
                await place.connection.close()

    def close_idle(self) -> None:
        """Closes what nobody has used for `connections.max.idle.ms`."""
        limit = self.config.seconds("connections.max.idle.ms")
        if limit < 0:
            return
        now = asyncio.get_running_loop().time()
        for place in self._places.values():
            connection = place.connection
            if connection is not None and not connection.in_flight and now - connection.last_used > limit:
                connection.abort()
                place.connection = None

    # Metadata -----------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> Cluster:
        """Asks for the brokers and some topics (None: all). Callers who want the same topics share one request.

        Raises what `ask` raises; errors of single topics are in the result.
        """
        wanted = None if topics is None else frozenset(topics)
        task = self._refreshing.get(wanted)
        if task is None:
            task = asyncio.create_task(self._refresh(wanted, create))
            self._refreshing[wanted] = task
            task.add_done_callback(lambda _: self._refreshing.pop(wanted, None))
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
                raise UnsupportedVersionError("the broker's Metadata request cannot ask for no topics")
            response = await connection.request(request)
            if response.error_code:
                error = broker_error(response.error_code)
                if error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                    await self.rebootstrap(error)
                raise error
            self.close_idle()
            return self.metadata.update(response, asyncio.get_running_loop().time(), whole=topics is None)

        return await self.attempt("any", ask)

    # Asking -------------------------------------------------------------------------------------------------

    async def ask(self, message: Any, where: Where = "any", *, timeout_s: float | None = None) -> Any:
        """The answer to a message, from a connection that works. Error codes in the answer are the caller's to judge.

        A request that is lost with its connection is sent again: only for requests that may be executed twice.
        """
        return await self.attempt(where, lambda connection: connection.request(message, timeout_s=timeout_s))

    async def attempt(
        self,
        where: Where | Callable[[], Awaitable[int]],
        work: Callable[[BrokerConnection], Awaitable[Result]],
        *,
        timeout_s: float | None = None,
        lane: str = "",
    ) -> Result:
        """Runs `work` with a connection; again, after a pause, if the connection fails or `work` raises a retriable
        KafkaError, until `default.api.timeout.ms` is over. where: a node, or a function that finds it each time.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + (self.api_timeout_s if timeout_s is None else timeout_s)
        backoff = Backoff(self.config.seconds("retry.backoff.ms"), self.config.seconds("retry.backoff.max.ms"))
        while True:
            try:
                node = await where() if callable(where) else where
                return await work(await self.connection(node, lane))
            except LOST:
                # Nobody has answered so far: waiting would only hide a wrong address.
                if self._reachable_at == float("-inf"):
                    raise
                pause = backoff.next()
                if self._closed or loop.time() + pause > give_up:
                    raise
            except KafkaError as error:
                pause = backoff.next()
                final = isinstance(error, UnknownTopicError) or not is_retriable(error.code)
                if final or loop.time() + pause > give_up:
                    raise
                if error.code == ErrorCode.NOT_CONTROLLER:
                    await self.refresh(())
            await asyncio.sleep(pause)

    async def coordinator(self, group: str) -> int:
        """The node that coordinates a group. Raises KafkaError (COORDINATOR_NOT_AVAILABLE is retriable)."""

        async def ask(connection: BrokerConnection) -> Any:
            highest = connection.highest(FindCoordinatorRequest)
            request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
            answer = await connection.request(request, min(highest, message_facts(FindCoordinatorRequest).highest))
            return answer.coordinators[0] if highest >= 4 else answer

        answer = await self.ask_once(ask)
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about=f"coordinator of group {group}")
        if self.cluster.node(answer.node_id) is None:
            await self.refresh(())
        return int(answer.node_id)

    async def ask_once(self, work: Callable[[BrokerConnection], Awaitable[Result]]) -> Result:
        """`work` with any connection, without another attempt."""
        return await work(await self.connection("any"))
