"""A connection to another broker's inter-broker listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from pybroker.broker.metadata.image import BrokerImage
from pybroker.client.client_errors import BrokerConnectionError, KafkaTimeoutError
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.request_schema import RequestSchema, request_schema
from pybroker.errors import KafkaError
from pybroker.native import message_class, message_schema

UNREACHABLE = (BrokerConnectionError, KafkaTimeoutError, KafkaError)
"""Exceptions that a request without a readable answer raises."""


class InterBrokerConnection(BrokerConnection):
    """A `BrokerConnection` with the message layouts of the KIP-516 text and of pybroker."""

    between_brokers = True

    async def learn_versions(self) -> None:
        """Request the other broker's API versions again: an operator may have raised its
        `inter.broker.protocol.version`.
        """
        await self._negotiate(None, -1)

    @staticmethod
    def schema_of(kind: type) -> RequestSchema:
        """Return the schema's facts about an inter-broker message class; for a class without inter-broker layout
        (ApiVersions, SASL), those of the client's class."""
        return _request_schema(kind)


async def ask_once(
    open_connection: Callable[[BrokerImage], Awaitable[InterBrokerConnection]],
    broker: BrokerImage,
    request: Any,
    timeout_s: float,
) -> Any:
    """Return the answer to a request over a separate connection. Raises the exceptions in `UNREACHABLE`, CodecError."""
    connection = await open_connection(broker)
    try:
        return await connection.request(request, timeout_s=timeout_s)
    finally:
        connection.abort()


@cache
def _request_schema(kind: type) -> RequestSchema:
    name = kind.__name__ if kind.__name__.endswith("Request") else f"{kind.__name__}Request"
    found = message_schema(name, interbroker=True)
    if found is None or found.api_key is None or message_class(name, interbroker=True) is not kind:
        return request_schema(kind)
    return RequestSchema(name.removesuffix("Request"), found.api_key, found.min_version, found.max_version)
