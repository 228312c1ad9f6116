"""The SCRAM credentials of this broker, by mechanism and user, as the controller sent them. The credentials of
delegation tokens are computed on demand.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets

from pybroker.broker.clock import Clock
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.security.authorizer import SecurityChange
from pybroker.config import BrokerConfig
from pybroker.protocol.scram import BY_NAME, STORED_ITERATIONS_MIN, ScramCredential, ScramMechanism


def secret_of(config: BrokerConfig) -> bytes | None:
    """Return `delegation.token.secret.key`; None if delegation tokens are disabled."""
    text = config["delegation.token.secret.key"] or config["delegation.token.master.key"]
    return str(text).encode() if text else None


def hmac_of(secret: bytes, token_id: str) -> bytes:
    """Return the token's HMAC. A client proves that it knows the HMAC."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(secret: bytes, token_id: str) -> str:
    """Return the HMAC in base64, which clients use as the password."""
    return base64.b64encode(hmac_of(secret, token_id)).decode()


log = logging.getLogger(__name__)

_MODEL = ScramCredential(secrets.token_hex(16).encode(), b"", b"", STORED_ITERATIONS_MIN)
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Credentials:
    """The current SCRAM credentials on one broker."""

    def __init__(self, secret: bytes | None, clock: Clock) -> None:
        """`secret` is `delegation.token.secret.key`; if it is None, no client can log in with a token."""
        self._token_secret = secret
        self._clock = clock
        self._tokens: dict[str, DelegationToken] = {}
        self._token_credentials: dict[tuple[ScramMechanism, str], ScramCredential] = {}
        self._users: dict[ScramMechanism, dict[str, ScramCredential]] = {mechanism: {} for mechanism in ScramMechanism}
        self._secret = secrets.token_bytes(32)
        self._models: dict[ScramMechanism, list[ScramCredential]] = {}

    def update(self, change: SecurityChange) -> None:
        """Apply a change."""
        self._models.clear()
        if change.full:
            for users in self._users.values():
                users.clear()
            self._tokens.clear()
            self._token_credentials.clear()
        for token_id, token in change.tokens.items():
            if token is not None:
                self._tokens[token_id] = token
                continue
            self._tokens.pop(token_id, None)
            for mechanism in ScramMechanism:
                self._token_credentials.pop((mechanism, token_id), None)
        for user, stored in change.users.items():
            for mechanism_name, mechanism in BY_NAME.items():
                self._users[mechanism].pop(user, None)
                if mechanism_name in stored:
                    try:
                        self._users[mechanism][user] = ScramCredential.parse(stored[mechanism_name])
                    except ValueError as problem:
                        log.error(
                            "ignored a damaged credential mechanism=%s user=%r: %s", mechanism_name, user, problem
                        )

    def token(self, token_id: str) -> DelegationToken | None:
        """Return a delegation token if it is valid now."""
        token = self._tokens.get(token_id)
        return token if token is not None and token.expires_ms > self._clock.wall_ms() else None

    def _of_token(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential | None:
        if self._token_secret is None or self.token(token_id) is None:
            return None
        key = mechanism, token_id
        if key not in self._token_credentials:
            self._token_credentials[key] = ScramCredential.of_password(
                mechanism, password_of(self._token_secret, token_id), STORED_ITERATIONS_MIN
            )
        return self._token_credentials[key]

    def find(self, mechanism: ScramMechanism, user: str, by_token: bool = False) -> tuple[ScramCredential, bool]:
        """Return the credential of a user, or of a delegation token with that id, and whether the credential is real.

        An unknown name always gets the same fake credential. No password matches it and it looks like a real
        credential, so the exchange does not reveal which users exist.
        """
        users = self._users[mechanism]
        credential = self._of_token(mechanism, user) if by_token else users.get(user)
        # Do the same work for known and unknown users.
        seed = hmac.digest(self._secret, f"{mechanism}:{user}".encode("utf-8", "surrogatepass"), "sha512")
        if mechanism not in self._models:
            self._models[mechanism] = [users[name] for name in sorted(users)] or [_MODEL]
        models = [_MODEL] if by_token else self._models[mechanism]
        model = models[int.from_bytes(seed[:8], "big") % len(models)]
        size = hashlib.new(mechanism.digest).digest_size
        made_up = ScramCredential(_salt_like(model.salt, seed), seed[:size], seed[:size], model.iterations)
        return (made_up, False) if credential is None else (credential, True)


def _salt_like(model: bytes, seed: bytes) -> bytes:
    """Return a salt as long as the clients' salts. If the clients' salts consist of digits of some base, use digits of
    the same base.
    """
    stream = hashlib.shake_256(seed).digest(len(model))
    for base in (16, 36):
        if all(byte in _DIGITS[:base] for byte in model):
            return bytes(_DIGITS[byte % base] for byte in stream)
    return stream
