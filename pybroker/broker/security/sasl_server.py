"""SASL on this broker's listeners: the conversations of connections and their outcomes.

Nothing notifies this module when a connection closes, so it keeps only a limited number of conversations for a limited
time. Native code closes a connection that does not authenticate in time.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from pybroker.broker.clock import Clock
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.broker_gate import BrokerGate
from pybroker.broker.security.credentials import Credentials
from pybroker.broker.security.oauth.oauth_listeners import OAuthListeners
from pybroker.broker.security.sasl_mechanisms import Conversation, PlainConversation, SaslFailedError, ScramConversation
from pybroker.config import BrokerConfig
from pybroker.config.broker_oauth import OAUTHBEARER
from pybroker.config.listener_settings import ListenerSecurity
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.scram import BY_NAME

log = logging.getLogger(__name__)

CONVERSATIONS_MAX = 20_000
"""Limit of conversations. Above it, the oldest conversation is dropped. It is higher than the number of connections
that `max.connections` allows.
"""

LINES_PER_SECOND_MAX = 20
REASON_CHARACTERS_MAX = 200

PRINCIPAL_TYPE = "User"


class SaslOutcome(msgspec.Struct, frozen=True):
    """The result of a client's token."""

    token: bytes
    principal: str | None
    """Set when the client has authenticated."""
    session_lifetime_ms: int | None
    """Milliseconds within which the client must authenticate again; None: never."""
    by_token: bool = False
    """The client has authenticated with a delegation token."""
    must_end: bool = False
    """True if the session ends with the client's token, even if the client does not support re-authentication."""
    wait: asyncio.Future[None] | None = None
    """Set if there is no answer yet: call `answer` again with the same token when the future is done."""


class _Open(msgspec.Struct, frozen=True):
    mechanism: str
    conversation: Conversation
    since_ms: int


class SaslServer:
    """The SASL server of one broker. Runs on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        credentials: Credentials,
        clock: Clock,
        gate: BrokerGate | None = None,
        oauth: OAuthListeners | None = None,
    ) -> None:
        """`gate` checks brokers on the inter-broker listener; it is None on a single broker. `oauth` has the
        OAUTHBEARER listeners.
        """
        self.oauth = oauth
        self._gate = gate
        self._config = config
        self._credentials = credentials
        self._clock = clock
        self._listeners = {
            listener.name: config.listener_security(listener.name)
            for listener in config.listeners
            if listener.protocol.startswith("SASL_")
        }
        self._open: dict[int, _Open] = {}
        self.succeeded = 0
        self.failed = 0
        self._log_second, self._logged, self._unlogged = -1, 0, 0

    @property
    def failure_delay_s(self) -> float:
        """Seconds before the response to a failed authentication is sent."""
        return self._config.get_int("connection.failed.authentication.delay.ms") / 1000

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """Return the mechanisms of a listener; empty without SASL."""
        found = self._listeners.get(listener)
        return found.mechanisms if found is not None else ()

    def begin(self, context: RequestContext, mechanism: str) -> None:
        """Handle a SaslHandshake. Raise KafkaError UNSUPPORTED_SASL_MECHANISM if the mechanism is not enabled,
        ILLEGAL_SASL_STATE if a handshake is not allowed now.
        """
        listener = self._listener(context)
        if context.connection_id in self._open:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "The SASL handshake of this connection is already complete.")
        if mechanism not in listener.mechanisms:
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{mechanism!r} is not enabled on this listener.")
        # A session that began with a token must re-authenticate before the token expires, whatever the listener's
        # settings are.
        may_again = context.by_token or mechanism == OAUTHBEARER or listener.reauth_ms[mechanism]
        if context.sasl_authenticated and (context.api_version == 0 or not may_again):
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "The client has already authenticated on this connection.")
        self._forget_old()
        self._open[context.connection_id] = _Open(
            mechanism, self._conversation(listener, context.listener, mechanism), self._clock.monotonic_ms()
        )

    def answer(self, context: RequestContext, token: bytes) -> SaslOutcome:
        """Handle the next token of a client.

        Raise AuthenticationError if the authentication fails, which ends the conversation; KafkaError
        ILLEGAL_SASL_STATE if there was no handshake.
        """
        listener = self._listener(context)
        current = self._open.get(context.connection_id)
        if current is None:
            state = "after authentication" if context.sasl_authenticated else "before SaslHandshake"
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, f"SaslAuthenticate request received {state}.")
        try:
            step = current.conversation.answer(token)
            if step.refused is not None:
                self._fail(context, current.mechanism, step.refused)
            if step.user is None:
                return SaslOutcome(step.token, None, None, wait=step.wait)
            principal = f"{PRINCIPAL_TYPE}:{step.user}"
            if context.sasl_authenticated and principal != context.principal:
                text = f"Cannot change principals during re-authentication from {context.principal}: {principal}"
                raise SaslFailedError(text, text)
            gate = self._gate
            if gate is not None and context.listener == gate.listener and not gate.admits(context, principal):
                raise SaslFailedError(
                    f"{principal} is not a broker, and this listener is for brokers only",
                    f"{principal} authenticated but is not a broker (neither in super.users nor allowed "
                    "CLUSTER_ACTION)",
                )
        except SaslFailedError as problem:
            del self._open[context.connection_id]
            if not problem.reported:
                self._fail(context, current.mechanism, problem.reason)
            raise
        del self._open[context.connection_id]
        self.succeeded += 1
        log.debug("authenticated principal=%r host=%s mechanism=%s", principal, context.client_host, current.mechanism)
        lifetime_ms = listener.reauth_ms[current.mechanism] or None
        by, left_ms = step.token_of, step.left_ms
        if by is not None:
            left_ms = max(1, by.expires_ms - self._clock.wall_ms())
        if left_ms is not None:
            lifetime_ms = left_ms if lifetime_ms is None else min(lifetime_ms, left_ms)
        return SaslOutcome(step.token, principal, lifetime_ms, by is not None, left_ms is not None)

    def _fail(self, context: RequestContext, mechanism: str, reason: str) -> None:
        """Count and log a failure, with a limit of lines per second, because clients must not fill the log."""
        self.failed += 1
        second = self._clock.monotonic_ms() // 1000
        if second != self._log_second:
            if self._unlogged:
                log.warning("left out log lines about failed authentications count=%d", self._unlogged)
            self._log_second, self._logged, self._unlogged = second, 0, 0
        if self._logged >= LINES_PER_SECOND_MAX:
            self._unlogged += 1
            return
        self._logged += 1
        log.warning(
            "authentication failed host=%s listener=%s mechanism=%s: %s",
            context.client_host,
            context.listener,
            mechanism,
            reason[:REASON_CHARACTERS_MAX],
            extra={"event": "authentication_failed"},
        )

    def _listener(self, context: RequestContext) -> ListenerSecurity:
        found = self._listeners.get(context.listener)
        if found is None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "This listener does not authenticate by SASL.")
        return found

    def _conversation(self, listener: ListenerSecurity, listener_name: str, mechanism: str) -> Conversation:
        if mechanism in BY_NAME:
            return ScramConversation(BY_NAME[mechanism], self._credentials)
        if mechanism == OAUTHBEARER:
            assert self.oauth is not None, "a broker that serves it has it"
            return self.oauth.conversation(listener_name)
        return PlainConversation(listener.plain_users)

    def _forget_old(self) -> None:
        """Drop old conversations. Conversations are ordered by their start."""
        keep_ms = 2 * self._config.get_int("connection.authentication.timeout.ms")
        oldest_ms = self._clock.monotonic_ms() - keep_ms
        while self._open:
            connection_id = next(iter(self._open))
            if self._open[connection_id].since_ms >= oldest_ms and len(self._open) < CONVERSATIONS_MAX:
                break
            del self._open[connection_id]
