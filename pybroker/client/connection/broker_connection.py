"""One connection to one broker: frames, correlation ids, versions, TLS and SASL.

    connection = await BrokerConnection.open("127.0.0.1", 9092)
    response = await connection.request(MetadataRequest(topics=None))
    await connection.close()

This module neither reconnects nor retries; `pybroker.client.connection.network` does both.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

from pybroker.client.client_errors import (
    AuthenticationError,
    BrokerConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from pybroker.client.config import ADMIN, ClientConfig
from pybroker.client.connection.request_schema import RequestSchema, request_schema
from pybroker.client.connection.sasl_login import SaslCredentials
from pybroker.client.connection.tls import tls_context
from pybroker.native import CodecError, decode_response, encode_request
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode, error_name
from pybroker.protocol.messages import (
    ApiVersionsRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

log = logging.getLogger(__name__)

_HEADER = struct.Struct(">i")
_API_VERSIONS, _SASL_AUTHENTICATE = 18, 36
_LOGIN_FIRST = frozenset({ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED})
"""Error codes of a broker that requires SASL or TLS, if the client uses neither."""
_PERHAPS_NO_TLS = "; if that listener has no TLS, set security.protocol=PLAINTEXT, or SASL_PLAINTEXT with a login"
_PERHAPS_TLS = " before it sent anything; if that listener has TLS, set security.protocol=SSL, or SASL_SSL with a login"
_NO_AUTHORITY = "; set ssl.truststore.location or ssl.ca.location to the CA of its certificate"
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
"""OpenSSL verification errors of a certificate without a trusted issuer: X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and
the three codes after it."""
_SESSION_SHARE = 0.85
"""Share of a SASL session's lifetime during which the client uses the session. At the end of the lifetime the broker
closes the connection.
"""
SOFTWARE_NAME = "pybroker"


def address(host: str, port: int) -> str:
    """Return `host:port`, for messages."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def needs_login(protocol: str) -> str:
    """Return advice for a listener that requires SASL or TLS, while the client does not use it."""
    better = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    words = f"security.protocol is {protocol}; set security.protocol={better}, sasl.mechanism, and user and password"
    return f"{words}, or SSL or SASL_SSL if that listener has TLS" if protocol == "PLAINTEXT" else words


def _asks_for_login(message: Any, versions: Mapping[int, tuple[int, int]]) -> int:
    """Return the error code of a response which shows that the broker requires a login; otherwise 0. versions: the
    broker's versions.
    """
    if isinstance(message, MetadataResponse) and message.cluster_id is None and not message.error_code:
        if ApiKey.LIST_TOPICS not in versions:
            return 0  # The broker is not pybroker, and may be too old to have a cluster id.
        # If the client does not log in or does not use the listener's TLS, pybroker refuses every topic and hides the
        # cluster id.
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        every = all(topic.error_code == refused and not topic.partitions for topic in message.topics or ())
        return ErrorCode.SASL_AUTHENTICATION_FAILED if every else 0
    code: int = getattr(message, "error_code", 0)
    return code if code in _LOGIN_FIRST else 0


class _Pending(NamedTuple):
    correlation_id: int
    key: int
    version: int
    answer: asyncio.Future[Any]


class BrokerConnection(asyncio.Protocol):
    """An open connection. Requests may overlap; responses arrive in the order of the requests.

    host, port: the broker's address. versions: API key → (lowest, highest) version of the broker. heard_at: loop time
    of the last response. hung_up_at_first: the broker closed the connection on the first request after ApiVersions, as
    Apache Kafka does when the login is missing.
    """

    between_brokers = False
    """Whether the connection uses the inter-broker message layouts."""

    @staticmethod
    def schema_of(kind: type) -> RequestSchema:
        """Return the schema's facts about a request class."""
        return request_schema(kind)

    def __init__(self, host: str, port: int, config: ClientConfig) -> None:
        self.host = host
        self.port = port
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """Finalized features of the cluster from the broker's ApiVersions response (KIP-584)."""
        self.last_used = 0.0
        self.last_response_at = float("-inf")
        self.hung_up_at_first = False
        self._config = config
        self._client_id: str = config["client.id"]
        self._logs_in: bool = config["security.protocol"].startswith("SASL")
        self._timeout_s = config.seconds("request.timeout.ms")
        self._frame_max: int = config["receive.message.max.bytes"]
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._pending: deque[_Pending] = deque()
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0
        self.failure: Exception | None = None
        """Why the connection is closed; None while it is open."""
        self._answered = 0
        self._renew_at = float("inf")
        self._retired = False
        self._closed = self._loop.create_future()
        self._may_write = asyncio.Event()
        self._may_write.set()

    # Opening ------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        config: ClientConfig | Mapping[str, Any] | None = None,
        *,
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> Self:
        """Connect, agree on versions and authenticate.

        config: settings under Kafka's names (`security.protocol`, `sasl.*`, `ssl.*`, `client.id`, timeouts).
        cluster_id, node_id: the expected broker; if another broker answers and supports KIP-1242, it returns
        REBOOTSTRAP_REQUIRED. Raises BrokerConnectionError if the connection fails, KafkaTimeoutError if the broker does
        not respond in time, AuthenticationError if the login fails, and KafkaError if the broker refuses the
        connection.
        """
        if not isinstance(config, ClientConfig):
            config = ClientConfig(ADMIN, config or {})
        connection = cls(host, port, config)
        protocol = config["security.protocol"]
        secure = tls_context(config) if protocol.endswith("SSL") else None
        credentials = SaslCredentials.of(config)
        limit = config.seconds("socket.connection.setup.timeout.ms")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit):
                await loop.create_connection(
                    lambda: connection, host, port, ssl=secure, server_hostname=host if secure else None
                )
        except TimeoutError:
            raise KafkaTimeoutError(
                f"no connection to {connection.address} within socket.connection.setup.timeout.ms={limit * 1000:.0f}"
            ) from None
        except ssl.SSLError as error:
            hint = _PERHAPS_NO_TLS
            if isinstance(error, ssl.SSLCertVerificationError):
                hint = _NO_AUTHORITY if error.verify_code in _UNKNOWN_AUTHORITY else ""
            raise BrokerConnectionError(f"TLS with {connection.address} failed: {error}{hint}") from error
        except socket.gaierror as error:
            text = f"cannot connect to {connection.address}: the host name does not resolve: {error.strerror}"
            raise BrokerConnectionError(text) from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise BrokerConnectionError(f"cannot connect to {connection.address}: {reason}") from error
        try:
            await connection._negotiate(cluster_id, node_id)
            if credentials is not None:
                await connection._authenticate(credentials)
        except BaseException:
            connection.abort()
            raise
        return connection

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        return address(self.host, self.port)

    @property
    def is_open(self) -> bool:
        """Whether the connection accepts new requests: False if it is closed or its SASL session ends soon
        (KIP-368).
        """
        return self._transport is not None and self.failure is None and self._loop.time() < self._renew_at

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._pending)

    def highest(self, request: type) -> int:
        """Return the highest version of a request class that both sides know. Raises UnsupportedVersionError if there
        is none.
        """
        return self._choose(self.schema_of(request), None)

    def supports(self, request: type, version: int = 0) -> bool:
        """Return whether the broker serves the request in `version`."""
        lowest, highest = self.versions.get(self.schema_of(request).key, (0, -1))
        return lowest <= version <= highest

    # Asking -------------------------------------------------------------------------------------------------

    async def request(self, message: Any, version: int | None = None, *, timeout_s: float | None = None) -> Any:
        """Send a message and return the response. Error codes in it do not raise, except codes that require a login.

        version: None = the highest version that both sides know. timeout_s: None = `request.timeout.ms`. If the
        response is overdue, the client closes the connection, because later responses would wait behind the overdue
        response. Raises BrokerConnectionError if the connection breaks, KafkaTimeoutError if the response is overdue,
        AuthenticationError if the broker requires a login, UnsupportedVersionError if no version is common, CodecError
        if the version cannot carry the message.
        """
        await self.drain()
        return await self.answer_to(message, self.start(message, version), timeout_s=timeout_s)

    async def answer_to(self, message: Any, answer: asyncio.Future[Any], *, timeout_s: float | None = None) -> Any:
        """Wait for the response to a request that `start` sent. If the response is overdue, close the connection."""
        limit = self._timeout_s if timeout_s is None else timeout_s
        timer = self._loop.call_later(limit, self._overdue, self.schema_of(type(message)).name, limit)
        try:
            return await answer
        finally:
            timer.cancel()

    def start(self, message: Any, version: int | None = None) -> asyncio.Future[Any]:
        """Send a request even if the socket's buffer is full, and return a future for the response. For callers that
        limit their own requests in flight.
        """
        self._check_open()
        schema = self.schema_of(type(message))
        chosen = self._choose(schema, version)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(message, chosen, self._correlation_id, self._client_id)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append(_Pending(self._correlation_id, schema.key, chosen, answer))
        self._write(frame)
        return answer

    def send_without_response(self, message: Any, version: int | None = None) -> None:
        """Send a request that has no response: Produce with acks=0."""
        self._check_open()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        chosen = self._choose(self.schema_of(type(message)), version)
        self._write(encode_request(message, chosen, self._correlation_id, self._client_id))

    def retire(self) -> None:
        """Close this connection when its last response has arrived, because another connection replaces it."""
        self._retired = True
        if not self._pending:
            self.abort()

    async def drain(self) -> None:
        """Wait until the socket accepts more data. Raises KafkaTimeoutError if the broker reads nothing for
        `request.timeout.ms`.
        """
        if self._may_write.is_set():
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._may_write.wait()
        except TimeoutError:
            self._fail(
                KafkaTimeoutError(
                    f"{self.address} accepted no data for request.timeout.ms={self._timeout_s * 1000:.0f}"
                )
            )
            self._check_open()

    async def close(self, silence_s: float | None = None) -> None:
        """Close the connection; do nothing if it is already closed. Requests that wait for a response fail.

        First send the queued requests that need no response (`tell`), but stop if the broker reads nothing for
        `silence_s` seconds (None = `request.timeout.ms`).
        """
        transport = self._transport
        if transport is not None and self.failure is None and not self._pending:
            left = transport.get_write_buffer_size()
            if left:
                transport.close()
            while left and not self._closed.done():
                await asyncio.wait((self._closed,), timeout=self._timeout_s if silence_s is None else silence_s)
                before, left = left, transport.get_write_buffer_size()
                if left >= before:
                    break
        self._fail(BrokerConnectionError(f"this client closed the connection to {self.address}"))
        if transport is not None:
            await asyncio.shield(self._closed)

    async def lost(self) -> None:
        """Wait until the connection is closed for any reason."""
        await asyncio.shield(self._closed)

    def abort(self, reason: Exception | None = None) -> None:
        """Close the connection without waiting."""
        self._fail(reason or BrokerConnectionError(f"this client closed the connection to {self.address}"))

    # asyncio.Protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio.Transport, but behave like it.
        self._transport = cast(asyncio.Transport, transport)
        self.last_used = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        asked = any(each.key != _API_VERSIONS for each in self._pending)
        self.hung_up_at_first = self.failure is None and asked and bool(self.versions) and not self._answered
        # If a client connects to a TLS listener without TLS, Apache Kafka closes the connection without a response.
        unheard = self.last_response_at < 0 and not self._config["security.protocol"].endswith("SSL")
        reason = f"{exc or 'the broker closed it'}{_PERHAPS_TLS if unheard else ''}"
        self._fail(BrokerConnectionError(f"the connection to {self.address} was lost: {reason}"))
        self._may_write.set()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._chunks)
            self._chunks = []
        begin, length = 0, len(data)
        while length - begin >= 4:
            (size,) = _HEADER.unpack_from(data, begin)
            if not 4 <= size <= self._frame_max:
                self._fail(self._no_frame(data[begin : begin + 4], size))
                return
            end = begin + 4 + size
            if end > length:
                self._need = end - begin
                break
            self._frame(data[begin + 4 : end])
            begin = end
        else:
            self._need = 4
        if begin < length and self.failure is None:
            self._chunks = [data[begin:]]
            self._have = length - begin

    # Inside -------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.failure is not None:
            raise type(self.failure)(*self.failure.args)
        if self._transport is None:
            raise BrokerConnectionError(f"the connection to {self.address} is not open")

    def _choose(self, schema: RequestSchema, version: int | None) -> int:
        if version is not None:
            return version
        served = self.versions.get(schema.key)
        if served is None:
            raise UnsupportedVersionError(
                f"the broker at {self.address} does not support {schema.name} (key {schema.key})"
            )
        lowest, highest = served
        chosen = min(schema.highest, highest)
        if chosen < max(schema.lowest, lowest):
            raise UnsupportedVersionError(
                f"the broker at {self.address} supports {schema.name} in versions {lowest}-{highest}, this client "
                f"in versions {schema.lowest}-{schema.highest}"
            )
        return chosen

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self.last_used = self._loop.time()
        self._transport.writelines((_HEADER.pack(len(frame)), frame))

    def _frame(self, frame: bytes) -> None:
        if not self._pending:
            self._fail(BrokerConnectionError(f"{self.address} sent a response without a request"))
            return
        pending = self._pending.popleft()
        self.last_used = self.last_response_at = self._loop.time()
        if pending.key != _API_VERSIONS:
            self._answered += 1
        if pending.answer.cancelled():
            if self._retired and not self._pending:
                self.abort()
            return
        version = pending.version
        # A broker that does not know our ApiVersions version answers in version 0 (KIP-511).
        if pending.key == _API_VERSIONS and frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2):
            version = 0
        try:
            correlation_id, message = decode_response(pending.key, version, frame, interbroker=self.between_brokers)
        except CodecError as error:
            failure = BrokerConnectionError(f"{self.address} sent an invalid response: {error}")
            pending.answer.set_exception(failure)
            self._fail(failure)
            return
        if correlation_id != pending.correlation_id:
            failure = BrokerConnectionError(
                f"{self.address} sent the response to request {correlation_id} out of order"
            )
            pending.answer.set_exception(failure)
            self._fail(failure)
            return
        refusal = 0 if self._logs_in else _asks_for_login(message, self.versions)
        if refusal:
            words = f"{self.address}: {needs_login(self._config['security.protocol'])}"
            pending.answer.set_exception(AuthenticationError(words, refusal))
            return
        pending.answer.set_result(message)
        if self._retired and not self._pending:
            self.abort()

    def _no_frame(self, first: bytes, size: int) -> Exception:
        if first in (b"HTTP", b"<!DO", b"<htm"):
            return BrokerConnectionError(f"{self.address} is a web server, not a broker")
        if first[:2] in (b"\x15\x03", b"\x16\x03"):
            return BrokerConnectionError(f"{self.address} requires TLS: set security.protocol to SSL or SASL_SSL")
        return BrokerConnectionError(
            f"{self.address} announced a response of {size} bytes; receive.message.max.bytes={self._frame_max}"
        )

    def _overdue(self, name: str, limit: float) -> None:
        self._fail(
            KafkaTimeoutError(f"{self.address} did not respond to {name} within request.timeout.ms={limit * 1000:.0f}")
        )

    def _fail(self, reason: Exception) -> None:
        if self.failure is None:
            self.failure = reason
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.answer.done():
                each.answer.set_exception(type(reason)(*reason.args))
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()

    async def _negotiate(self, cluster_id: str | None, node_id: int) -> None:
        from pybroker.version import version

        ask = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME,
            client_software_version=version(),
            cluster_id=cluster_id,
            node_id=node_id,
        )
        highest = request_schema(ApiVersionsRequest).highest
        answer = await self.request(ask, highest)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = {row.api_key: row.max_version for row in answer.api_keys}
            answer = await self.request(ask, min(served.get(_API_VERSIONS, 0), highest))
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            raise KafkaError(answer.error_code, f"{self.address} is no longer node {node_id} of cluster {cluster_id}")
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{self.address} rejected ApiVersions: {error_name(answer.error_code)}")
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        self.features = {row.name: row.max_version_level for row in answer.finalized_features}

    async def _authenticate(self, credentials: SaslCredentials) -> None:
        handshake = await self.request(SaslHandshakeRequest(mechanism=credentials.mechanism), 1)
        if handshake.error_code:
            raise AuthenticationError(
                (
                    f"{self.address} does not support sasl.mechanism={credentials.mechanism}; it supports "
                    f"{', '.join(handshake.mechanisms) or 'none'}"
                ),
                handshake.error_code,
            )
        exchange = await credentials.exchange()
        ours = next(exchange)
        while True:
            request = SaslAuthenticateRequest(auth_bytes=ours)
            answer = await self.request(request, None if _SASL_AUTHENTICATE in self.versions else 0)
            if answer.error_code:
                text = answer.error_message or error_name(answer.error_code)
                raise AuthenticationError(f"{self.address}, {credentials.who}: {text}", answer.error_code)
            try:
                ours = exchange.send(answer.auth_bytes)
            except StopIteration:
                if answer.session_lifetime_ms > 0:
                    self._renew_at = self._loop.time() + answer.session_lifetime_ms / 1000 * _SESSION_SHARE
                return
