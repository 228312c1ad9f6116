"""Carries the messages of the metadata quorum over inter-broker connections; each message type has its own API key. A
node has two connections: one for its fetches, which wait for records, and one for everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.quorum_events import AskClusterId
from pybroker.broker.cluster.value_codec import UnreadableError, pack_event, unpack_reply
from pybroker.broker.interbroker.connector import Connector
from pybroker.broker.interbroker.interbroker_connection import UNREACHABLE, InterBrokerConnection
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.quorum.fetch_reports import FetchReports, is_served
from pybroker.broker.quorum.native_log import PortRefusedError, UnreachableNodeError
from pybroker.errors import KafkaError
from pybroker.native import CodecError, decode, encode
from pybroker.native_quorum import QuorumReplicaStatus, QuorumRequest, QuorumStatus
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode

ANSWER_S = 5.0
CONNECT_S = 1.0
VOTERS_S_MAX = 0.7
"""Time limit in seconds for the answers of voters."""


class QuorumTransport:
    """The transport of one node; used on the loop's thread."""

    def __init__(
        self,
        broker_id: int,
        open_connection: Connector,
        address_of: Callable[[int, str, int], BrokerImage | None],
        reports: FetchReports,
    ) -> None:
        """`address_of` returns the inter-broker address of a node by its id. Its arguments `host` and `port` are the
        address that the node itself has reported, or "" and 0. Fetches carry the `reports`."""
        self._broker_id = broker_id
        self._open_connection = open_connection
        self._address_of = address_of
        self._reports = reports
        self._open: dict[tuple[int, bool], InterBrokerConnection] = {}
        self._turns: dict[tuple[int, bool], asyncio.Lock] = {}

    async def send(self, request: QuorumRequest) -> bytes:
        """Send a request of the quorum."""
        address = request.address
        broker = self._address_of(request.peer, *(("", 0) if address is None else (address.host, address.port)))
        if broker is None:
            raise UnreachableNodeError(f"the address of node {request.peer} is unknown")
        key, version = broker.broker_id, request.api_version
        message = decode(request.api_key, version, request.body, True, interbroker=True)
        report = self._reports.current
        if request.api_key == ApiKey.FETCH:
            message.replica_epoch, message.applied_offset = report
            message.applied_version = self._reports.offsets.received
        try:
            connection = await self._connection((key, request.api_key == ApiKey.FETCH), broker)
            if not connection.supports(type(message), version):
                raise UnreachableNodeError(f"node {key} does not serve {type(message).__name__} {version}")
            answer = await connection.request(message, version, timeout_s=ANSWER_S)
            if request.api_key == ApiKey.FETCH and is_served(answer):
                self._reports.received(report)
                if answer.applied_offsets:
                    offsets = {broker.broker_id: broker.end_offset for broker in answer.applied_offsets}
                    self._reports.offsets.receive(answer.applied_version, offsets)
            return encode(answer, version)
        except ConnectionRefusedError as problem:
            raise PortRefusedError from problem
        except (*UNREACHABLE, CodecError, TimeoutError) as problem:
            if _refused(problem):
                raise PortRefusedError from problem
            raise UnreachableNodeError(str(problem)) from problem

    async def answering_voters(self, status: QuorumStatus) -> int:
        """Return how many other voters answer in time. Stop waiting when they are a majority, because a stopping broker
        must not wait for voters that are down."""
        others = [voter for voter in status.voters if voter.node_id != self._broker_id]
        waiting = {asyncio.ensure_future(self._answers(voter)) for voter in others}
        end, count = asyncio.get_running_loop().time() + VOTERS_S_MAX, 0
        try:
            while waiting and count < majority_of(status):
                left = end - asyncio.get_running_loop().time()
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                count += sum(answer.result() for answer in done)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return count

    async def _answers(self, voter: QuorumReplicaStatus) -> bool:
        host, port = next(((endpoint.host, endpoint.port) for endpoint in voter.endpoints), ("", 0))
        broker = self._address_of(voter.node_id, host, port)
        return broker is not None and await cluster_id_of(self._open_connection, broker, self._broker_id) is not None

    async def _connection(self, key: tuple[int, bool], broker: BrokerImage) -> InterBrokerConnection:
        async with self._turns.setdefault(key, asyncio.Lock()):
            connection = self._open.get(key)
            if connection is None or not connection.is_open:
                async with asyncio.timeout(CONNECT_S):
                    connection = self._open[key] = await self._open_connection(broker)
            return connection

    def close(self) -> None:
        """Close the connections; waiting requests fail."""
        for connection in self._open.values():
            connection.abort()


def majority_of(status: QuorumStatus) -> int:
    """Return the number of voters in a majority."""
    return len(status.voters) // 2 + 1


def _refused(problem: BaseException) -> bool:
    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return True
        seen = seen.__cause__
    return False


async def cluster_id_of(open_connection: Connector, broker: BrokerImage, broker_id: int) -> str | None:
    """Return the id of another broker's cluster; None if the broker does not answer."""
    try:
        async with asyncio.timeout(CONNECT_S):
            connection = await open_connection(broker)
    except (*UNREACHABLE, TimeoutError):
        return None
    try:
        answer: str = await _ask(connection, broker_id, AskClusterId())
    except (*UNREACHABLE, CodecError, UnreadableError):
        return None
    finally:
        connection.abort()
    return answer


async def _ask(connection: InterBrokerConnection, broker_id: int, event: Event[Any]) -> Any:
    inner = wire.SubmitEventRequest(broker_id=broker_id, event=pack_event(event), timeout_ms=0, asked_ms_ago=0)
    envelope = wire.EnvelopeRequest(request_data=encode(inner, 0), request_principal=None, client_host_address=b"")
    answer = await connection.request(envelope, timeout_s=ANSWER_S)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), type(event).__name__)
    reply = decode(ApiKey.SUBMIT_EVENT, 0, answer.response_data or b"", False, interbroker=True)
    if reply.error_code:
        raise KafkaError(reply.error_code, reply.error_message)
    return unpack_reply(type(event), reply.reply)
