"""Delegation tokens (KIP-48): create, renew, expire and describe tokens, and remove expired tokens. Independent of
protocol versions.

A client that logged in with a password gets a token and passes it to other clients. These clients log in with the
token, and have the permissions of its owner. The token id is the user name, and the HMAC of the id with
`delegation.token.secret.key` is the password (SCRAM, `tokenauth=true`).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Sequence

from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import ChangeToken, CreateToken
from pybroker.broker.log_limits import BY_MEMBER
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.security.credentials import hmac_of, secret_of
from pybroker.config import BrokerConfig
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

RENEWERS_MAX = 1_000
NAME_BYTES_MAX = 255
TIME_MAX = (1 << 63) - 1
TOKENS_MAX = 100_000
"""Limit for the whole cluster, because every broker keeps all tokens in memory."""


class TokenAdmin:
    """The token requests. Reads the cluster view and submits changes to the controller."""

    def __init__(self, view: ClusterView, controller: ControllerClient, config: BrokerConfig, clock: Clock) -> None:
        self._view = view
        self._controller = controller
        self._config = config
        self._clock = clock
        self._secret = secret_of(config)
        self._removing: asyncio.Task[None] | None = None

    @property
    def enabled(self) -> bool:
        """Return whether delegation tokens are enabled."""
        return self._secret is not None

    def require(self) -> bytes:
        """Return the secret. Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED if none is configured."""
        if self._secret is None:
            raise KafkaError(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
                "Delegation tokens are disabled, because delegation.token.secret.key is not set.",
            )
        return self._secret

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start removing expired tokens."""
        if self.enabled:
            self._removing = asyncio.create_task(self._remove_expired())

    def stop(self) -> None:
        """Stop removing expired tokens."""
        if self._removing is not None:
            self._removing.cancel()

    async def _remove_expired(self) -> None:
        while True:
            await asyncio.sleep(self._config.get_int("delegation.token.expiry.check.interval.ms") / 1000)
            now_ms = self._clock.wall_ms()
            for token in tuple(self._view.image.tokens.values()):
                if token.expires_ms < now_ms:
                    try:
                        await self._controller.submit(ChangeToken(token.token_id, None, now_ms, None))
                    except KafkaError as error:
                        log.info("cannot remove an expired delegation token yet, retrying: %s", error)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def create(
        self, owner: str, renewers: Sequence[str], lifetime_ms: int, caller: Caller
    ) -> tuple[DelegationToken, bytes]:
        """Create a token and return it with its HMAC. Raises KafkaError."""
        secret = self.require()
        if len(renewers) > RENEWERS_MAX or any(len(name.encode()) > NAME_BYTES_MAX for name in (owner, *renewers)):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The request has more than {RENEWERS_MAX} renewers, or a name of more than {NAME_BYTES_MAX} bytes.",
            )
        if any(not name.startswith("User:") for name in (owner, *renewers)):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, "Principals of delegation tokens must be of type User.")
        tokens = self._view.image.tokens
        if len(tokens) >= TOKENS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"The cluster has {TOKENS_MAX} delegation tokens already. Expire one first."
            )
        own_max = self._config.get_int("delegation.token.max.per.user")
        if len(tokens) >= own_max and sum(token.owner == owner for token in tokens.values()) >= own_max:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{owner} has {own_max} delegation tokens already (delegation.token.max.per.user). Expire one first.",
            )
        now_ms = self._clock.wall_ms()
        longest_ms = self._config.get_int("delegation.token.max.lifetime.ms")
        lifetime_ms = min(lifetime_ms, longest_ms) if lifetime_ms > 0 else longest_ms
        max_ms = min(now_ms + lifetime_ms, TIME_MAX)
        expires_ms = min(max_ms, now_ms + self._config.get_int("delegation.token.expiry.time.ms"))
        token_id = secrets.token_urlsafe(16)
        token = DelegationToken(token_id, owner, caller.principal, tuple(renewers), now_ms, max_ms, expires_ms)
        await self._submit(CreateToken(token), caller)
        log.info(
            "delegation token created by=%r token_id=%s owner=%r", caller.principal, token_id, owner, extra=BY_MEMBER
        )
        return token, hmac_of(secret, token_id)

    async def renew(self, hmac_sent: bytes, period_ms: int, caller: Caller) -> int:
        """Extend a token and return its new expiry timestamp (ms). Raises KafkaError."""
        token = self._known(hmac_sent)
        now_ms = self._clock.wall_ms()
        if token.max_ms < now_ms:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "The delegation token has expired.")
        period_ms = period_ms if period_ms > 0 else self._config.get_int("delegation.token.expiry.time.ms")
        expires_ms = min(now_ms + period_ms, TIME_MAX)
        return await self._submit(ChangeToken(token.token_id, expires_ms, now_ms, caller.principal), caller)

    async def expire(self, hmac_sent: bytes, period_ms: int, caller: Caller) -> int:
        """Change a token's expiry and return the new timestamp (ms). A negative `period_ms` expires it at once. Raises
        KafkaError."""
        token = self._known(hmac_sent)
        now_ms = self._clock.wall_ms()
        expires_ms = None if period_ms < 0 else min(now_ms + period_ms, TIME_MAX)
        return await self._submit(ChangeToken(token.token_id, expires_ms, now_ms, caller.principal), caller)

    def describe(
        self, owners: Sequence[str] | None, visible: Callable[[DelegationToken], bool]
    ) -> list[tuple[DelegationToken, bytes]]:
        """Return tokens with their HMACs. The caller must be allowed to see each token. If `owners` is given, return a
        token only if one of the owners owns it, has requested it, or may renew it. Raises KafkaError.
        """
        secret = self.require()
        tokens = self._view.image.tokens.values()
        return [
            (token, hmac_of(secret, token.token_id))
            for token in tokens
            if (owners is None or any(token.may_be_changed_by(owner) for owner in owners)) and visible(token)
        ]

    def _known(self, hmac_sent: bytes) -> DelegationToken:
        secret = self.require()
        for token in self._view.image.tokens.values():
            if hmac.compare_digest(hmac_of(secret, token.token_id), hmac_sent):
                return token
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "There is no such delegation token.")

    async def _submit(self, event: CreateToken | ChangeToken, caller: Caller) -> int:
        answer = await self._controller.submit(event, caller=caller)
        if answer.late is not None:
            raise answer.late
        return int(answer.reply or 0)
