"""The server side of the SASL mechanisms PLAIN (RFC 4616) and SCRAM: pure conversations, no connection, no clock.

`oauth.oauth_conversation` has OAUTHBEARER. A conversation takes the client's tokens and returns the server's, or raises
AuthenticationError. The client cannot learn whether a user exists.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.broker.security.credentials import Credentials
from pybroker.protocol.scram import ScramError, ScramMechanism, ServerConversation


class SaslFailedError(Exception):
    """A failed authentication. The client may see `message`; `reason` is for the broker's log."""

    def __init__(self, message: str, reason: str, *, reported: bool = False) -> None:
        """`reported`: whether the previous step has already sent and logged the reason."""
        super().__init__(reason)
        self.message = message
        self.reason = reason
        self.reported = reported


class Step(NamedTuple):
    """The server's next token. `user` is set when the client has authenticated as that user."""

    token: bytes
    user: str | None = None
    token_of: DelegationToken | None = None
    """The delegation token with which the client has logged in as the token's owner."""
    left_ms: int | None = None
    """Milliseconds until the client's token expires; None if it does not expire."""
    refused: str | None = None
    """The reason why the token is refused, for the broker's log. The authentication fails when the client has
    acknowledged the server's token.
    """
    wait: asyncio.Future[None] | None = None
    """Set if there is no answer yet: call `answer` again with the same token when the future is done."""


class Conversation(Protocol):
    """One authentication."""

    def answer(self, token: bytes) -> Step:
        """Return the next step. Raise AuthenticationError if the authentication fails. When a step has a user, the
        authentication is complete, and `answer` must not be called again.
        """
        ...


class PlainConversation:
    """One message: authorization id, user and password, separated by NULs."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def answer(self, token: bytes) -> Step:
        """Check the only message."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslFailedError("Invalid SASL/PLAIN response: it is not UTF-8", "it is not UTF-8") from None
        if len(parts) != 3:
            text = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise SaslFailedError(text, text)
        authorization_id, user, password = parts
        for name, value in (("username", user), ("password", password)):
            if not value:
                text = f"Authentication failed: {name} not specified"
                raise SaslFailedError(text, text)
        expected = self._users.get(user)
        # Compare hashes. They hide lengths, and the comparison takes constant time even for unknown users.
        digest, expected_digest = (hashlib.sha256(text.encode()).digest() for text in (password, expected or ""))
        if not hmac.compare_digest(digest, expected_digest) or expected is None:
            raise SaslFailedError(
                "Authentication failed: Invalid username or password", f"user {user!r} or its password is wrong"
            )
        if authorization_id not in ("", user):
            text = "Authentication failed: Client requested an authorization id that is different from username"
            raise SaslFailedError(text, text)
        return Step(b"", user)


class ScramConversation:
    """Two messages. The client gets the same text for every failure."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server = ServerConversation(mechanism, functools.partial(credentials.find, mechanism))

    def answer(self, token: bytes) -> Step:
        """Answer the first message with the challenge, and the second message with the signature."""
        try:
            answer, user = self._server.answer(token)
            if user is None or not self._server.by_token:
                return Step(answer, user)
            found = self._credentials.token(user)
            if found is None:
                raise ScramError(f"delegation token {user!r} has expired")
            return Step(answer, found.owner.removeprefix("User:"), found)
        except ScramError as problem:
            raise SaslFailedError(
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._mechanism.mechanism_name}",
                str(problem),
            ) from None
