"""The server's side of SASL's mechanisms, PLAIN (RFC 4616) and SCRAM: pure conversations, no connection, no clock.
OAUTHBEARER's is `oauth.conversation`.

A conversation is fed the client's tokens; it gives the server's, or raises AuthenticationError. What the client is told
never says whether the user exists.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pybroker.broker.metadata.delegation_tokens import DelegationToken
from pybroker.broker.security.credentials import Credentials
from pybroker.protocol.scram import ScramError, ScramMechanism, ServerConversation


class AuthenticationError(Exception):
    """The client is not who it says, or does not speak the mechanism. `message` may be told to it; `reason` is for our
    log."""

    def __init__(self, message: str, reason: str, *, told: bool = False) -> None:
        """`told`: the step before has said why it fails."""
        super().__init__(reason)
        self.message = message
        self.reason = reason
        self.told = told


class Step(NamedTuple):
    """What the server says; `user` is set once the client has proven to be that user."""

    token: bytes
    user: str | None = None
    token_of: DelegationToken | None = None
    """By which the user, its owner, has logged in."""
    left_ms: int | None = None
    """For how long what the user has shown is valid yet; None: no end is known."""
    refused: str | None = None
    """Why the client fails, for our log, once it has acknowledged what it is told."""
    wait: asyncio.Future[None] | None = None
    """Nothing is said yet: the same token is to be given again when this is done."""


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


class ScramConversation:
    """Two messages. Whatever is wrong, the client is told the same."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server = ServerConversation(mechanism, functools.partial(credentials.find, mechanism))

    def answer(self, token: bytes) -> Step:
        """Challenge, then signature."""
        try:
            answer, user = self._server.answer(token)
            if user is None or not self._server.by_token:
                return Step(answer, user)
            found = self._credentials.token(user)
            if found is None:
                raise ScramError(f"delegation token {user!r} has expired")
            return Step(answer, found.owner.removeprefix("User:"), found)
        except ScramError as problem:
            raise AuthenticationError(
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._mechanism.mechanism_name}",
                str(problem),
            ) from None
