"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): stored credentials, and both sides of the exchange. Pure: no
connection, no store, no clock.

As in Kafka, user names and passwords are used unchanged (no SASLprep), and there is no channel binding. A library with
SASLprep would lock out users whose credentials Kafka's tools have created.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import NamedTuple

STORED_ITERATIONS_MIN = 4096
STORED_ITERATIONS_MAX = 16384
"""Kafka's limits for stored credentials, the same for both mechanisms."""

CLIENT_ITERATIONS_MAX = 1_000_000
"""Limit of the iterations that a client computes. A hostile server could demand more, to keep the client busy."""

CLIENT_MESSAGE_BYTES_MAX = 2_048
"""Size limit of a client's message in bytes. A broker keeps the first message, which comes before the login, until the
conversation expires. The limit is large enough, because a user name has at most 255 bytes."""


class ScramError(Exception):
    """The peer violates the protocol or does not know the password; the text says which of the two."""


class ScramMechanism(IntEnum):
    """A SCRAM mechanism, with its code on the wire (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The mechanism's name in `sasl.mechanism`."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The name of the hash function in hashlib."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return RFC 5802's Hi(password); *slow* by design."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """Return RFC 5802's ClientKey; a client proves that it knows the key."""
        return hmac.digest(salted_password, b"Client Key", self.digest)

    def sign(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.digest)

    def hash(self, data: bytes) -> bytes:
        """Return RFC 5802's H(data)."""
        return hashlib.new(self.digest, data).digest()


BY_NAME = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    """A broker's stored form of a password: enough to verify a login, not enough to log in."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def render(self) -> str:
        """Return Kafka's text form."""
        salt, stored, server = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @staticmethod
    def parse(text: str) -> ScramCredential:
        """Parse Kafka's text form. Raises ValueError, whose text does not contain `text`."""
        found = dict(pair.partition("=")[::2] for pair in text.split(","))
        try:
            salt, stored, server = (_bytes(found[name]) for name in ("salt", "stored_key", "server_key"))
            return ScramCredential(salt, stored, server, int(found["iterations"]))
        except (KeyError, ValueError):
            raise ValueError("not a valid SCRAM credential") from None

    @staticmethod
    def of_salted_password(
        mechanism: ScramMechanism, salt: bytes, iterations: int, salted_password: bytes
    ) -> ScramCredential:
        """Create a credential from the salted password that clients send (KIP-554)."""
        stored_key = mechanism.hash(mechanism.client_key(salted_password))
        return ScramCredential(salt, stored_key, mechanism.sign(salted_password, b"Server Key"), iterations)

    @staticmethod
    def of_password(mechanism: ScramMechanism, password: str, iterations: int) -> ScramCredential:
        """Create a credential from a password, with a new salt."""
        salt = secrets.token_hex(16).encode()
        salted = mechanism.salted_password(password, salt, iterations)
        return ScramCredential.of_salted_password(mechanism, salt, iterations, salted)


def client_conversation(
    mechanism: ScramMechanism, user: str, password: str, *, token: bool = False
) -> Generator[bytes, bytes, None]:
    """Run the client's side of the exchange. The generator yields messages to send and receives the broker's messages.
    It returns after the broker has proven that it knows the password. token: whether `user` and `password` are a
    delegation token's id and HMAC (KIP-48). Raises ScramError."""
    nonce = secrets.token_urlsafe(24)
    first = f"n={_quoted(user)},r={nonce}" + (",tokenauth=true" if token else "")
    challenge = (yield f"n,,{first}".encode()).decode("utf-8", "replace")
    fields = _fields(challenge)
    try:
        salt, iterations, agreed = _bytes(fields["s"]), int(fields["i"]), fields["r"]
    except (KeyError, ValueError):
        raise ScramError(f"the broker sent an invalid SCRAM challenge: {challenge[:200]!r}") from None
    if not agreed.startswith(nonce) or agreed == nonce:
        raise ScramError("the broker's SCRAM nonce does not continue the client's")
    if not 1 <= iterations <= CLIENT_ITERATIONS_MAX:
        raise ScramError(f"the broker requires {iterations} SCRAM iterations, which is outside the accepted range")
    salted = mechanism.salted_password(password, salt, iterations)
    credential = ScramCredential.of_salted_password(mechanism, salt, iterations, salted)
    without_proof = f"c=biws,r={agreed}"
    signed = f"{first},{challenge},{without_proof}".encode()
    proof = _xor(mechanism.client_key(salted), mechanism.sign(credential.stored_key, signed))
    final = _fields((yield f"{without_proof},p={_base64(proof)}".encode()).decode("utf-8", "replace"))
    if "e" in final:
        raise ScramError(f"the broker rejected the login: {final['e']}")
    try:
        signature = _bytes(final.get("v", ""))
    except ValueError:
        signature = b""
    if not hmac.compare_digest(signature, mechanism.sign(credential.server_key, signed)):
        raise ScramError("the broker does not know the password: its SCRAM signature is invalid")


_SASL_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]*)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{_SASL_NAME}))?,)(?P<bare>n=(?P<user>{_SASL_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)


class ServerConversation:
    """The broker's side of the exchange, which has two client messages. Its cost does not depend on the number of
    iterations, because clients compute them.

    find: returns the credential of a user, or of a delegation token with this id (KIP-48), and whether the credential
    is real. Unknown users get a fake credential, which hides which users exist.
    """

    def __init__(self, mechanism: ScramMechanism, find: Callable[[str, bool], tuple[ScramCredential, bool]]) -> None:
        self._mechanism = mechanism
        self._find = find
        self.by_token = False
        """Whether the client's first message names a delegation token instead of a user."""
        self._first: re.Match[str] | None = None
        self._user = ""
        self._challenge = ""
        self._nonce = ""

    def answer(self, token: bytes) -> tuple[bytes, str | None]:
        """Return (next message, authenticated user): first the challenge, with None, then the broker's signature.
        Raises ScramError, whose text is for the broker's log, not for the client."""
        if len(token) > CLIENT_MESSAGE_BYTES_MAX:
            raise ScramError(f"the message has {len(token)} bytes, at most {CLIENT_MESSAGE_BYTES_MAX} are allowed")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise ScramError("the message is not UTF-8") from None
        return (self._begin(text), None) if self._first is None else (self._verify(self._first, text), self._user)

    def _begin(self, text: str) -> bytes:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise ScramError("the first message is malformed")
        self._user = _unquoted(first["user"])
        authorization_id = _unquoted(first["authzid"] or "")
        if authorization_id not in ("", self._user):
            raise ScramError(f"user {self._user!r} asks for the rights of {authorization_id!r}")
        self.by_token = "tokenauth=true" in first["extensions"].lower().split(",")
        credential, _ = self._find(self._user, self.by_token)
        self._first = first
        self._nonce = first["nonce"] + secrets.token_urlsafe(24)
        self._challenge = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        return self._challenge.encode()

    def _verify(self, first: re.Match[str], text: str) -> bytes:
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise ScramError("the final message is malformed")
        # A nonce that the broker did not send indicates a replay (CVE-2024-56128). The channel binding repeats the
        # header of the first message.
        if not hmac.compare_digest(final["nonce"].encode(), self._nonce.encode()):
            raise ScramError("the nonce differs from the first message")
        try:
            binding, proof = _bytes(final["binding"]), _bytes(final["proof"])
        except ValueError:
            raise ScramError("the final message is malformed") from None
        if binding != first["header"].encode():
            raise ScramError("the channel binding differs from the first message")
        # Look the credential up again, because it may have been deleted or changed since the challenge.
        credential, known = self._find(self._user, self.by_token)
        signed = f"{first['bare']},{self._challenge},{final['bare']}".encode()
        signature = self._mechanism.sign(credential.stored_key, signed)
        proven = len(proof) == len(signature) and hmac.compare_digest(
            self._mechanism.hash(_xor(proof, signature)), credential.stored_key
        )
        if not proven or not known:
            raise ScramError(f"user {self._user!r} or its password is wrong")
        return b"v=" + _base64(self._mechanism.sign(credential.server_key, signed)).encode()


def _quoted(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unquoted(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """Decode base64. Raises ValueError."""
    return base64.b64decode(text, validate=True)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
