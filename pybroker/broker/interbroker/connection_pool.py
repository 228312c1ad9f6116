"""Connection pool for requests to other brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.interbroker.interbroker_connection import UNREACHABLE, InterBrokerConnection
from pybroker.broker.metadata.image import BrokerImage
from pybroker.errors import KafkaError
from pybroker.native import CodecError
from pybroker.protocol.error_codes import ErrorCode

ANSWER_SECONDS_MAX = 10.0

OpenConnection = Callable[[BrokerImage], Awaitable[InterBrokerConnection]]


class ConnectionPool:
    """One connection to each broker, opened when it is needed. Answers arrive in the order of the requests."""

    def __init__(self, view: ClusterView, open_connection: OpenConnection) -> None:
        self._view = view
        self._open_connection = open_connection
        self._open: dict[int, tuple[int, InterBrokerConnection]] = {}
        """Broker → its broker epoch and connection."""
        self._dialing: dict[int, asyncio.Lock] = {}

    async def ask(self, broker_id: int, request: Any) -> Any:
        """Return the answer. Raises KafkaError REQUEST_TIMED_OUT if the outcome is unknown."""
        try:
            connection = await self._connection_to(broker_id)
            return await connection.request(request, timeout_s=ANSWER_SECONDS_MAX)
        except (*UNREACHABLE, CodecError) as problem:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {broker_id}: {problem}") from problem

    async def _connection_to(self, broker_id: int) -> InterBrokerConnection:
        async with self._dialing.setdefault(broker_id, asyncio.Lock()):
            broker = self._view.image.brokers.get(broker_id)
            if broker is None:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it is not registered")
            epoch, connection = self._open.get(broker_id, (-1, None))
            if connection is None or not connection.is_open or epoch != broker.epoch:
                if connection is not None:
                    connection.retire()
                connection = await self._open_connection(broker)
                self._open[broker_id] = broker.epoch, connection
            return connection

    def close(self) -> None:
        """Close all connections; waiting requests fail."""
        for _, connection in self._open.values():
            connection.abort()
