"""Connections to all brokers of a cluster: which one is asked, when to reconnect, when to start over."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from enum import IntEnum
from typing import Any, Literal, TypeVar

from pybroker.client.cluster import Cluster, Node, TopicPartition
from pybroker.client.config import ClientConfig, addresses
from pybroker.client.connection.backoff import Backoff
from pybroker.client.connection.broker_connection import BrokerConnection, address, needs_login
from pybroker.client.connection.message_facts import message_facts
from pybroker.client.connection.metadata import Metadata
from pybroker.client.connection.trouble import Trouble
from pybroker.client.errors import (
    AuthenticationError,
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

_HUNG_UP_MAX = 2
"""A broker that hangs up so often on the first request of a connection wants something else first: SASL."""
_APPEARS_S = 2.0
"""How long a topic or partition that was just made may take to be known to every broker."""
_CLOSE_S = 2.0
"""What was sent without asking for an answer (acks=0) gets so long to leave when all is closed."""


class _Place:
    """One node: its connection, and when it may be tried again. hung_up: how often in a row it ended a connection on
    the first request after the versions.
    """

    def __init__(self, backoff: Backoff) -> None:
        self.connection: BrokerConnection | None = None
        self.lock = asyncio.Lock()
        self.backoff = backoff
        self.not_before = 0.0
        self.hung_up = 0


class CoordinatorKind(IntEnum):
    """What is coordinated, as FindCoordinator has it."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def shown(self) -> str:
        """In messages."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


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
        self.trouble = Trouble(config["client.id"])
        self._heard_at = float("-inf")
        self._bootstrap_by: float | None = None
        self._closed = False

    @property
    def cluster(self) -> Cluster:
        """The current metadata."""
        return self.metadata.cluster

    @property
    def heard_at(self) -> float:
        """When a broker has last answered anything (loop time); minus infinity if none ever did."""
        now = [place.connection.heard_at for place in self._places.values() if place.connection is not None]
        return max((self._heard_at, *now))

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
            if place.connection is not None:
                self._judge(place, place.connection)
                self._retire(place.connection)
                place.connection = None
            connection = await self._connect(place, host, port, node_id)
            if self._closed or self._places.get((host, port, lane)) is not place:
                connection.abort()
                raise BrokerConnectionError("the client was closed, or starts over, while it connected")
            place.connection = connection
            place.backoff.reset()
            self._heard_at = loop.time()
            self.trouble.is_over(connection.address)
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
            place.not_before = asyncio.get_running_loop().time() + place.backoff.next()
            # Before any broker has answered the exception tells the caller, unless it is going to be tried again.
            if isinstance(error, LOST) and (self.heard_at > float("-inf") or self._bootstrap_left_s > 0):
                self.trouble.began(address(host, port), error)
            raise

    def _judge(self, place: _Place, lost: BrokerConnection) -> None:
        """Why a connection is gone. Raises AuthenticationError if the broker lets nobody in who does not log in."""
        if isinstance(lost.failure, KafkaTimeoutError):
            self.trouble.began(lost.address, lost.failure)
        place.hung_up = place.hung_up + 1 if lost.hung_up_at_first else 0
        if place.hung_up >= _HUNG_UP_MAX:
            place.hung_up = 0
            place.connection = None
            raise AuthenticationError(
                f"{lost.address} tells its versions and closes the connection on the first request, as a listener with "
                f"another security.protocol does: {needs_login(self.config['security.protocol'])}",
                ErrorCode.ILLEGAL_SASL_STATE,
            )

    def _retire(self, connection: BrokerConnection) -> None:
        """It ends with its last answer, or with us."""
        self._heard_at = max(self._heard_at, connection.heard_at)
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
                self._heard_at = max(self._heard_at, place.connection.heard_at)
                place.connection.abort()

    async def close(self) -> None:
        """Closes all connections, in a moment."""
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
        """Closes what nobody has used for `connections.max.idle.ms`."""
        limit = self.config.seconds("connections.max.idle.ms")
        if limit < 0:
            return
        now = asyncio.get_running_loop().time()
        for place in self._places.values():
            connection = place.connection
            if connection is not None and not connection.in_flight and now - connection.last_used > limit:
                self._heard_at = max(self._heard_at, connection.heard_at)
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
                error = broker_error(response.error_code, about="metadata")
                if error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                    await self.rebootstrap(error)
                raise error
            self.close_idle()
            return self.metadata.update(response, asyncio.get_running_loop().time(), whole=topics is None)

        return await self.attempt("any", ask, about="metadata")

    async def existing(self, partitions: Iterable[TopicPartition]) -> Cluster:
        """The metadata, once they know these partitions: one that was just made may be known a little later. Raises
        UnknownTopicError for what does not exist, KafkaError for what the caller may not see.
        """
        wanted = list(partitions)
        loop = asyncio.get_running_loop()
        since: float | None = None

        async def look(_: BrokerConnection) -> Cluster:
            nonlocal since
            cluster = await self.refresh({each.topic for each in wanted})
            for each in wanted:
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
        """The answer to a message, from a connection that works. Error codes in the answer are the caller's to judge.

        A request that is lost with its connection is sent again: only for requests that may be executed twice.
        """
        about = message_facts(type(message)).name
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
        """Runs `work` with a connection; again, after a pause, if the connection fails or `work` raises a retriable
        KafkaError, until `timeout_s` (else `default.api.timeout.ms`) is over; then it raises the last failure.

        where: a node, or a function that finds it each time. about: what a time-out says it was about. failed: told of
        each failure.
        """
        loop = asyncio.get_running_loop()
        limit = self.api_timeout_s if timeout_s is None else timeout_s
        if self.heard_at == float("-inf") and self._bootstrap_left_s > 0:
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
                        # Another broker may be the controller by now, also where that one is gone.
                        not_it = isinstance(error, KafkaError) and error.code == ErrorCode.NOT_CONTROLLER
                        moved = not_it or (where == "controller" and not isinstance(error, KafkaError))
                    await asyncio.sleep(pause)
        except TimeoutError as late:
            if not scope.expired():
                raise
            allowed = f"{limit:.3g} s" if timeout_s is not None else f"default.api.timeout.ms={limit * 1000:.0f}"
            raise self.overdue(f"{f'{about}: ' if about else ''}no answer within {allowed}", failure) from late

    def _helps(self, error: Exception) -> bool:
        """Whether another attempt may do better."""
        if isinstance(error, KafkaError):
            return error.retriable and not isinstance(error, UnknownTopicError)
        # While no broker has answered, another attempt would only hide a wrong address, unless the user waits for one.
        return not self._closed and (self.heard_at > float("-inf") or self._bootstrap_left_s > 0)

    @property
    def _bootstrap_left_s(self) -> float:
        """What is left of `bootstrap.wait.ms`, which counts from the first look at this."""
        now = asyncio.get_running_loop().time()
        if self._bootstrap_by is None:
            self._bootstrap_by = now + self.config.seconds("bootstrap.wait.ms")
        return self._bootstrap_by - now

    def overdue(self, what: str, failure: Exception | None = None) -> KafkaTimeoutError:
        """A time-out that names its cause: the last failure, else what is known to be wrong with the brokers."""
        cause = failure if isinstance(failure, KafkaError) else self.trouble.cause or failure
        error = KafkaTimeoutError(f"{what}: {cause}" if cause is not None else what)
        error.__cause__ = cause
        return error

    async def coordinator(self, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> int:
        """The node that coordinates a group, or a transactional id. Raises KafkaError (COORDINATOR_NOT_AVAILABLE is
        retriable).
        """

        async def ask(connection: BrokerConnection) -> Any:
            highest = connection.highest(FindCoordinatorRequest)
            request = FindCoordinatorRequest(key=key, key_type=int(kind), coordinator_keys=[key])
            answer = await connection.request(request, min(highest, message_facts(FindCoordinatorRequest).highest))
            return answer.coordinators[0] if highest >= 4 else answer

        answer = await self.ask_once(ask)
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about=f"coordinator of {kind.shown} {key}")
        if self.cluster.node(answer.node_id) is None:
            await self.refresh(())
        return int(answer.node_id)

    async def ask_once(self, work: Callable[[BrokerConnection], Awaitable[Result]]) -> Result:
        """`work` with any connection, without another attempt."""
        return await work(await self.connection("any"))
