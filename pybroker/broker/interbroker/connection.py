"""A connection to another broker's listener for brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from pybroker.broker.metadata.image import BrokerImage
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.message_facts import MessageFacts, message_facts
from pybroker.client.errors import BrokerConnectionError, KafkaTimeoutError
from pybroker.errors import KafkaError
from pybroker.native import message_class, message_schema

UNREACHABLE = (BrokerConnectionError, KafkaTimeoutError, KafkaError)
"""What a request over it raises when it was not answered, or not understood."""


class InterBrokerConnection(BrokerConnection):
    """`BrokerConnection` that speaks the layouts of the KIP-516 text and our own."""

    between_brokers = True

    async def learn_versions(self) -> None:
        """Asks what the other broker serves by now: its `inter.broker.protocol.version` may have been raised."""
        await self._negotiate(None, -1)

    @staticmethod
    def facts(kind: type) -> MessageFacts:
        """Of a class that brokers send; of a client's where brokers have no other (ApiVersions, SASL)."""
        return _facts(kind)


async def ask_once(
    dial: Callable[[BrokerImage], Awaitable[InterBrokerConnection]], broker: BrokerImage, request: Any, timeout_s: float
) -> Any:
    """The answer to a request over a connection of its own. Raises what `UNREACHABLE` names, CodecError."""
    connection = await dial(broker)
    try:
        return await connection.request(request, timeout_s=timeout_s)
    finally:
        connection.abort()


@cache
def _facts(kind: type) -> MessageFacts:
    name = kind.__name__ if kind.__name__.endswith("Request") else f"{kind.__name__}Request"
    found = message_schema(name, interbroker=True)
    if found is None or found.api_key is None or message_class(name, interbroker=True) is not kind:
        return message_facts(kind)
    return MessageFacts(name.removesuffix("Request"), found.api_key, found.min_version, found.max_version)
