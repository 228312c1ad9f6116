"""SCRAM credentials of users and their place in the store, Kafka's: `/config/users/[name]`, as texts under the names of
the mechanisms (KIP-84, KIP-554). A password is never kept, only what proves that a client knows it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from enum import IntEnum
from typing import NamedTuple
from urllib.parse import quote, unquote

USER_CONFIGS = "/config/users"

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
"""Kafka's bounds, of both mechanisms."""


class ScramMechanism(IntEnum):
    """Numbers of the wire (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """As SASL calls it."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """As hashlib calls it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


SASL_NAMES = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """What the broker keeps of a password (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def render(self) -> str:
        """Kafka's text."""
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @staticmethod
    def parse(text: str) -> ScramCredential:
        """Raises ValueError, without the text in it."""
        found = dict(pair.partition("=")[::2] for pair in text.split(","))
        try:
            salt, stored, server = (
                base64.b64decode(found[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            return ScramCredential(salt, stored, server, int(found["iterations"]))
        except (KeyError, ValueError, binascii.Error):
            raise ValueError("this is no SCRAM credential") from None

    @staticmethod
    def of_salted_password(
        mechanism: ScramMechanism, salt: bytes, iterations: int, salted_password: bytes
    ) -> ScramCredential:
        """From what clients send (KIP-554)."""
        digest = mechanism.digest
        client_key = hmac.digest(salted_password, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        return ScramCredential(salt, stored_key, hmac.digest(salted_password, b"Server Key", digest), iterations)

    @staticmethod
    def of_password(
        mechanism: ScramMechanism, password: str, iterations: int = ITERATIONS_MIN, salt: bytes | None = None
    ) -> ScramCredential:
        """From a password; *slow*, as it is meant to be."""
        salt = secrets.token_hex(16).encode() if salt is None else salt
        salted = hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)
        return ScramCredential.of_salted_password(mechanism, salt, iterations, salted)


def user_path(name: str) -> str:
    """The node of a user; names are sanitized as Kafka does."""
    encoded = quote(name, safe="").replace("~", "%7E")
    return f"{USER_CONFIGS}/{encoded.replace('.', '%2E') if encoded in ('.', '..') else encoded}"


def user_of_path(path: str) -> str:
    """The other way round."""
    return unquote(path.removeprefix(USER_CONFIGS + "/"))
