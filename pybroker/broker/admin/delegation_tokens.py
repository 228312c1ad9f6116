"""Delegation tokens (KIP-48): create, renew, expire, describe, and the end of those whose time is over. Knows no
protocol version.

A client that has logged in by a password gets one, hands it to others, and they log in with it as its owner: the id is
the user's name, and the HMAC of the id under `delegation.token.secret.key` the password (SCRAM, `tokenauth=true`).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Sequence

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.events import ChangeToken, CreateToken
from pybroker.broker.cluster.port import ControllerPort
from pybroker.broker.cluster.view import ClusterView
from pybroker.broker.metadata.delegation_tokens import DelegationToken
from pybroker.broker.security.tokens import hmac_of, secret_of
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RENEWERS_MAX = 1_000
NAME_BYTES_MAX = 255
TOKENS_MAX = 100_000
"""In the whole cluster: every broker has all of them in memory."""


class TokenAdmin:
    """Reads the view, and asks the controller."""

    def __init__(self, view: ClusterView, port: ControllerPort, config: BrokerConfig, clock: Clock) -> None:
        self._view = view
        self._port = port
        self._config = config
        self._clock = clock
        self._secret = secret_of(config)
        self._removing: asyncio.Task[None] | None = None

    @property
    def enabled(self) -> bool:
        """Whether there are any."""
        return self._secret is not None

    def require(self) -> bytes:
        """The secret. Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED."""
        if self._secret is None:
            raise KafkaError(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
                "Delegation tokens are switched off: delegation.token.secret.key is not set.",
            )
        return self._secret

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to remove tokens that have expired."""
        if self.enabled:
            self._removing = asyncio.create_task(self._remove_expired())

    def stop(self) -> None:
        """Ends that."""
        if self._removing is not None:
            self._removing.cancel()

    async def _remove_expired(self) -> None:
        while True:
            await asyncio.sleep(self._config.get_int("delegation.token.expiry.check.interval.ms") / 1000)
            now_ms = self._clock.wall_ms()
            for token in tuple(self._view.image.tokens.values()):
                if token.expires_ms < now_ms:
                    try:
                        await self._port.submit(ChangeToken(token.token_id, None, now_ms, None))
                    except KafkaError as error:
                        log.info("an expired delegation token is removed later: %s", error)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def create(
        self, owner: str, renewers: Sequence[str], lifetime_ms: int, caller: Caller
    ) -> tuple[DelegationToken, bytes]:
        """A new token and its HMAC. KafkaError."""
        secret = self.require()
        if len(renewers) > RENEWERS_MAX or any(len(name.encode()) > NAME_BYTES_MAX for name in (owner, *renewers)):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"More than {RENEWERS_MAX} renewers, or a name of more than {NAME_BYTES_MAX}"
            )
        if any(not name.startswith("User:") for name in (owner, *renewers)):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, "Principals of delegation tokens are of type User.")
        tokens = self._view.image.tokens
        if len(tokens) >= TOKENS_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"There are {TOKENS_MAX} delegation tokens already.")
        own_max = self._config.get_int("delegation.token.max.per.user")
        if len(tokens) >= own_max and sum(token.owner == owner for token in tokens.values()) >= own_max:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{owner} has {own_max} delegation tokens already.")
        now_ms = self._clock.wall_ms()
        longest_ms = self._config.get_int("delegation.token.max.lifetime.ms")
        max_ms = now_ms + (min(lifetime_ms, longest_ms) if lifetime_ms > 0 else longest_ms)
        expires_ms = min(max_ms, now_ms + self._config.get_int("delegation.token.expiry.time.ms"))
        token_id = secrets.token_urlsafe(16)
        token = DelegationToken(token_id, owner, caller.principal, tuple(renewers), now_ms, max_ms, expires_ms)
        await self._submit(CreateToken(token), caller)
        log.info("%r created delegation token %s of %r", caller.principal, token_id, owner)
        return token, hmac_of(secret, token_id)

    async def renew(self, given: bytes, period_ms: int, caller: Caller) -> int:
        """When it expires now. KafkaError."""
        token = self._known(given)
        now_ms = self._clock.wall_ms()
        if token.max_ms < now_ms:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The delegation token has expired.")
        period_ms = period_ms if period_ms >= 0 else self._config.get_int("delegation.token.expiry.time.ms")
        return await self._submit(ChangeToken(token.token_id, now_ms + period_ms, now_ms, caller.principal), caller)

    async def expire(self, given: bytes, period_ms: int, caller: Caller) -> int:
        """When it expires now: at once if `period_ms` is negative. KafkaError."""
        token = self._known(given)
        now_ms = self._clock.wall_ms()
        expires_ms = None if period_ms < 0 else now_ms + period_ms
        return await self._submit(ChangeToken(token.token_id, expires_ms, now_ms, caller.principal), caller)

    def describe(
        self, owners: Sequence[str] | None, visible: Callable[[DelegationToken], bool]
    ) -> list[tuple[DelegationToken, bytes]]:
        """Tokens of these owners, or of all, that somebody may see, with their HMACs. KafkaError."""
        secret = self.require()
        tokens = self._view.image.tokens.values()
        return [
            (token, hmac_of(secret, token.token_id))
            for token in tokens
            if (owners is None or token.owner in owners) and visible(token)
        ]

    def _known(self, given: bytes) -> DelegationToken:
        secret = self.require()
        for token in self._view.image.tokens.values():
            if hmac.compare_digest(hmac_of(secret, token.token_id), given):
                return token
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such delegation token.")

    async def _submit(self, event: CreateToken | ChangeToken, caller: Caller) -> int:
        answer = await self._port.submit(event, caller=caller)
        if answer.late is not None:
            raise answer.late
        return int(answer.reply or 0)
