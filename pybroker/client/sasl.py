"""The client's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802), with the standard library only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator

from pybroker.client.config import ClientConfig
from pybroker.client.errors import AuthenticationError, ClientConfigError

Exchange = Generator[bytes, bytes, None]
"""Gives what we say, is sent what the broker says; ends when we believe the broker."""

ITERATIONS_MAX = 1_000_000
"""More would let a hostile server keep us busy; Kafka's servers use 4096 to 16384."""


class Credentials:
    """Mechanism, user and password of a client. Never shows the password."""

    def __init__(self, mechanism: str, username: str, password: str) -> None:
        self.mechanism = mechanism
        self.username = username
        self._password = password

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username})"

    @classmethod
    def of(cls, config: ClientConfig) -> Credentials | None:
        """From `sasl.*`; None if `security.protocol` asks for none. Raises ClientConfigError for what is missing."""
        if not config["security.protocol"].startswith("SASL_"):
            return None
        mechanism, user, password = config["sasl.mechanism"], config["sasl.username"], config["sasl.password"]
        if config["sasl.jaas.config"] is not None:
            user, password = _of_jaas(config["sasl.jaas.config"])
        for name, value in (("mechanism", mechanism), ("username", user), ("password", password)):
            if value is None:
                raise ClientConfigError(f"security.protocol={config['security.protocol']} needs sasl.{name}")
        return cls(mechanism, user, password)

    def exchange(self) -> Exchange:
        """One conversation."""
        if self.mechanism == "PLAIN":
            return _plain(self.username, self._password)
        return _scram(self.mechanism, self.username, self._password)


def _of_jaas(text: str) -> tuple[str | None, str | None]:
    """`… required username="alice" password="secret";` as Java clients have it."""
    found = dict(re.findall(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"", text))
    plain = {name: re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
    return plain.get("username"), plain.get("password")


def _plain(username: str, password: str) -> Exchange:
    yield b"\0" + username.encode() + b"\0" + password.encode()


def _scram(mechanism: str, username: str, password: str) -> Exchange:
    algorithm = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    nonce = secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first_bare}".encode()).decode("utf-8", "replace")
    fields = _fields(server_first)
    try:
        salt = base64.b64decode(fields["s"], validate=True)
        iterations = int(fields["i"])
        server_nonce = fields["r"]
    except (KeyError, ValueError):
        raise AuthenticationError(f"the broker's SCRAM challenge cannot be read: {server_first[:200]!r}") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise AuthenticationError("the broker's SCRAM nonce does not continue ours")
    if not 1 <= iterations <= ITERATIONS_MAX:
        raise AuthenticationError(f"the broker asks for {iterations} SCRAM iterations")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    without_proof = f"c=biws,r={server_nonce}"
    signed = f"{first_bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    final = _fields((yield f"{without_proof},p={proof}".encode()).decode("utf-8", "replace"))
    if "e" in final:
        raise AuthenticationError(f"the broker refuses: {final['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    try:
        theirs = base64.b64decode(final.get("v", ""), validate=True)
    except ValueError:
        theirs = b""
    if not hmac.compare_digest(theirs, expected):
        raise AuthenticationError("the broker does not know the password: its SCRAM signature is wrong")


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}
