"""The SCRAM credentials in force on this broker, by mechanism and user, as the controller told them."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets

from pybroker.protocol.scram import BY_NAME, STORED_ITERATIONS_MIN, ScramCredential, ScramMechanism
from pybroker.security.change import SecurityChange

log = logging.getLogger(__name__)

_MODEL = ScramCredential(secrets.token_hex(16).encode(), b"", b"", STORED_ITERATIONS_MIN)
_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Credentials:
    """See the module."""

    def __init__(self) -> None:
        self._users: dict[ScramMechanism, dict[str, ScramCredential]] = {one: {} for one in ScramMechanism}
        self._secret = secrets.token_bytes(32)
        self._models: dict[ScramMechanism, list[ScramCredential]] = {}

    def update(self, change: SecurityChange) -> None:
        """Takes a change over."""
        self._models.clear()
        if change.full:
            for users in self._users.values():
                users.clear()
        for user, stored in change.users.items():
            for mechanism_name, mechanism in BY_NAME.items():
                self._users[mechanism].pop(user, None)
                if mechanism_name in stored:
                    try:
                        self._users[mechanism][user] = ScramCredential.parse(stored[mechanism_name])
                    except ValueError as problem:
                        log.error("the %s credential of user %r is damaged: %s", mechanism_name, user, problem)

    def find(self, mechanism: ScramMechanism, user: str) -> tuple[ScramCredential, bool]:
        """The credential of a user and whether it is real. Strangers get one of the same looks, always the same for
        the same name, that no password fits: nobody learns from the exchange which users there are."""
        users = self._users[mechanism]
        credential = users.get(user)
        # The work is the same for known and unknown users.
        seed = hmac.digest(self._secret, f"{mechanism}:{user}".encode("utf-8", "surrogatepass"), "sha512")
        if mechanism not in self._models:
            self._models[mechanism] = [users[name] for name in sorted(users)] or [_MODEL]
        models = self._models[mechanism]
        model = models[int.from_bytes(seed[:8], "big") % len(models)]
        size = hashlib.new(mechanism.digest).digest_size
        made_up = ScramCredential(_salt_like(model.salt, seed), seed[:size], seed[:size], model.iterations)
        return (made_up, False) if credential is None else (credential, True)


def _salt_like(model: bytes, seed: bytes) -> bytes:
    """A salt that looks like another one: of its length, and of digits of the same base where clients make them so."""
    stream = hashlib.shake_256(seed).digest(len(model))
    for base in (16, 36):
        if all(byte in _DIGITS[:base] for byte in model):
            return bytes(_DIGITS[byte % base] for byte in stream)
    return stream
