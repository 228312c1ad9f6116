"""The server's side of PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677): pure conversations, no connection, no clock.

A conversation is fed the client's tokens; it gives the server's, or raises AuthenticationError. What the client is told
never says whether the user exists.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pybroker.metadata.users import ScramMechanism
from pybroker.security.credentials import Credentials


class AuthenticationError(Exception):
    """The client is not who it says, or does not speak the mechanism. `message` may be told to it; `reason` is for our
    log."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(reason)
        self.message = message
        self.reason = reason


class Step(NamedTuple):
    """What the server says; `user` is set once the client has proven to be that user."""

    token: bytes
    user: str | None = None


class Conversation(Protocol):
    """One authentication."""

    def answer(self, token: bytes) -> Step:
        """The next step; raises AuthenticationError. Not to be called after a step with a user."""
        ...


class PlainConversation:
    """One message: authorization id, user and password, with NULs between them."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def answer(self, token: bytes) -> Step:
        """The only step."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationError("Invalid SASL/PLAIN response: it is not UTF-8", "it is not UTF-8") from None
        if len(parts) != 3:
            text = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise AuthenticationError(text, text)
        authorization_id, user, password = parts
        for name, value in (("username", user), ("password", password)):
            if not value:
                text = f"Authentication failed: {name} not specified"
                raise AuthenticationError(text, text)
        expected = self._users.get(user)
        # Hashed, so that neither the comparison nor the lengths of the two tell anything; strangers cost the same.
        given, wanted = (hashlib.sha256(text.encode()).digest() for text in (password, expected or ""))
        if not hmac.compare_digest(given, wanted) or expected is None:
            raise AuthenticationError(
                "Authentication failed: Invalid username or password", f"user {user!r} or its password is wrong"
            )
        if authorization_id not in ("", user):
            text = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationError(text, text)
        return Step(b"", user)


_SASL_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]=[^\x00,]*)*"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{_SASL_NAME}))?,)(?P<bare>n=(?P<user>{_SASL_NAME}),r=(?P<nonce>{_NONCE})"
    rf"{_EXTENSIONS})",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)


class ScramConversation:
    """Two messages from the client. The server's work does not depend on the iterations: clients do them."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._refused = AuthenticationError(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{mechanism.sasl_name}",
            "",
        )
        self._first: re.Match[str] | None = None
        self._user = ""
        self._server_first = ""
        self._nonce = ""

    def answer(self, token: bytes) -> Step:
        """Challenge, then signature."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refuse("the message is not UTF-8") from None
        return self._challenge(text) if self._first is None else self._verify(self._first, text)

    def _refuse(self, reason: str) -> AuthenticationError:
        return AuthenticationError(self._refused.message, reason)

    def _challenge(self, text: str) -> Step:
        first = _CLIENT_FIRST.fullmatch(text)
        if first is None:
            raise self._refuse("the first message is malformed")
        self._user = first["user"].replace("=2C", ",").replace("=3D", "=")
        authorization_id = (first["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        if authorization_id not in ("", self._user):
            raise self._refuse(f"user {self._user!r} asks for the rights of {authorization_id!r}")
        credential, _ = self._credentials.find(self._mechanism, self._user)
        self._first = first
        self._nonce = first["nonce"] + secrets.token_urlsafe(24)
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return Step(self._server_first.encode())

    def _verify(self, first: re.Match[str], text: str) -> Step:
        final = _CLIENT_FINAL.fullmatch(text)
        if final is None:
            raise self._refuse("the final message is malformed")
        # A nonce from elsewhere is a replay (CVE-2024-56128); the binding repeats the header of the first message.
        if not hmac.compare_digest(final["nonce"].encode(), self._nonce.encode()):
            raise self._refuse("the nonce is not the one that was agreed on")
        if _base64(final["binding"]) != first["header"].encode():
            raise self._refuse("the channel binding is not that of the first message")
        # Asked again: the credential may have gone, or changed, meanwhile.
        credential, known = self._credentials.find(self._mechanism, self._user)
        message = f"{first['bare']},{self._server_first},{final['bare']}".encode()
        digest = self._mechanism.digest
        signature = hmac.digest(credential.stored_key, message, digest)
        proof = _base64(final["proof"]) or b""
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        proven = hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)
        if not proven or not known or len(proof) != len(signature):
            raise self._refuse(f"user {self._user!r} or its password is wrong")
        server_signature = hmac.digest(credential.server_key, message, digest)
        return Step(b"v=" + base64.b64encode(server_signature), self._user)


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
