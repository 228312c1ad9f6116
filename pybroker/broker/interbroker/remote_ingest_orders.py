"""Sends the orders of the broker that commits a staged ingest to the other brokers, over the inter-broker listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.ingest_orders import PrepareIngest
from pybroker.broker.cluster.value_codec import UnreadableError, pack, unpack
from pybroker.broker.interbroker.interbroker_connection import InterBrokerConnection, ask_once
from pybroker.broker.metadata.image import BrokerImage
from pybroker.client.client_errors import BrokerConnectionError, KafkaTimeoutError
from pybroker.errors import KafkaError
from pybroker.native import CodecError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode

ANSWER_SECONDS_MAX = 60.0
"""Timeout of an order in seconds. The receiver may have to sync gigabytes."""

Outcome = dict[int, tuple[int, int]]
"""Rows and bytes by partition."""


class IngestOrders:
    """The `IngestPeers` of a broker in a cluster. Each order has its own connection, so that a slow order does not
    delay others."""

    def __init__(
        self, view: ClusterView, open_connection: Callable[[BrokerImage], Awaitable[InterBrokerConnection]]
    ) -> None:
        self._view = view
        self._open_connection = open_connection

    async def prepare(self, broker_id: int, order: PrepareIngest) -> Mapping[int, tuple[int, int]]:
        """Send a prepare order; return rows and bytes by partition."""
        broker = self._view.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {broker_id} is not registered.")
        request = wire.IngestOrderRequest(order=pack(order), timeout_ms=int(ANSWER_SECONDS_MAX * 1000))
        try:
            answer = await ask_once(self._open_connection, broker, request, ANSWER_SECONDS_MAX)
        except (BrokerConnectionError, KafkaTimeoutError, CodecError) as problem:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {broker_id}: {problem}") from problem
        if answer.error_code:
            raise KafkaError(answer.error_code, f"Broker {broker_id}: {answer.error_message}")
        try:
            outcome: Outcome = unpack(Outcome, answer.outcome)
        except UnreadableError as problem:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Broker {broker_id}: {problem}") from problem
        return outcome
