"""Connections to the controller, one for each running request.

A connection returns answers in the order of the requests. On a common connection, an ISR change could wait behind a
CreateTopics that waits for a broker which does not respond.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pybroker.broker.interbroker.interbroker_connection import InterBrokerConnection
from pybroker.broker.metadata.image import BrokerImage

UNDER_WAY_MAX = 64
"""Limit of running requests. Further requests wait for a free connection until their timeout."""

OpenConnection = Callable[[BrokerImage], Awaitable[InterBrokerConnection]]


class ControllerConnections:
    """The controller connections of one broker; on the loop's thread."""

    def __init__(self, open_connection: OpenConnection) -> None:
        self._open_connection = open_connection
        self._life = -1, -1
        self._idle: list[InterBrokerConnection] = []
        self._busy: set[InterBrokerConnection] = set()
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)

    @asynccontextmanager
    async def to(self, broker: BrokerImage) -> AsyncIterator[InterBrokerConnection]:
        """Yield a connection for one request. If the caller stops waiting for the answer, close the connection: a late
        answer must not be taken for the answer to another request. Raises the exceptions in `UNREACHABLE`."""
        async with self._room:
            connection = self._kept(broker) or await self._open_connection(broker)
            self._busy.add(connection)
            try:
                yield connection
            finally:
                self._busy.discard(connection)
                if connection.in_flight or not connection.is_open or self._life != (broker.broker_id, broker.epoch):
                    connection.abort()
                else:
                    self._idle.append(connection)

    def _kept(self, broker: BrokerImage) -> InterBrokerConnection | None:
        if self._life != (broker.broker_id, broker.epoch):
            self._life = broker.broker_id, broker.epoch
            self._end(self._idle)
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            connection.abort()
        return None

    def close(self) -> None:
        """Close all connections; waiting requests fail."""
        self._life = -1, -1
        self._end(self._idle)
        for connection in list(self._busy):
            connection.abort()

    @staticmethod
    def _end(idle: list[InterBrokerConnection]) -> None:
        while idle:
            idle.pop().abort()
