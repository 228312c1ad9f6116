"""The client's side of SASL: who logs in, and by which mechanism: PLAIN (RFC 4616), SCRAM or OAUTHBEARER (RFC
7628)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from pybroker.client.config import ClientConfig
from pybroker.client.errors import AuthenticationError, ClientConfigError
from pybroker.config.jaas import options_of_client
from pybroker.config.values import InvalidValue
from pybroker.protocol.scram import BY_NAME, ScramError, ScramMechanism, client_conversation

if TYPE_CHECKING:
    from pybroker.client.connection.oauth import TokenSource

Exchange = Generator[bytes, bytes, None]
"""Gives what we say, is sent what the broker says; ends when we believe the broker."""


class Credentials:
    """As whom a client logs in: by mechanism, user and password, or by tokens. Never shows a secret."""

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        tokens: TokenSource | None = None,
        *,
        delegation_token: bool = False,
    ) -> None:
        """`delegation_token`: user and password are a token's id and HMAC (KIP-48)."""
        self._delegation_token = delegation_token
        self.mechanism = mechanism
        self.username = username
        self._password = password
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username})"

    @property
    def who(self) -> str:
        """For errors."""
        return f"user {self.username}" if self._tokens is None else "by a token"

    @classmethod
    def of(cls, config: ClientConfig) -> Credentials | None:
        """From `sasl.*`; None if `security.protocol` asks for none. Raises ClientConfigError for what is missing."""
        if not config["security.protocol"].startswith("SASL_"):
            return None
        mechanism, user, password = config["sasl.mechanism"], config["sasl.username"], config["sasl.password"]
        line = config["sasl.jaas.config"]
        jaas = {} if line is None else jaas_options(line)
        if mechanism == "OAUTHBEARER":
            # What speaks HTTP is imported where it is needed.
            from pybroker.client.connection.oauth import TokenSource

            return cls(mechanism, "", "", config.once("tokens", lambda: TokenSource(config, jaas)))
        if line is not None:
            user, password = jaas.get("username"), jaas.get("password")
        for name, value in (("mechanism", mechanism), ("username", user), ("password", password)):
            if value is None:
                raise ClientConfigError(f"security.protocol={config['security.protocol']} needs sasl.{name}")
        return cls(mechanism, user, password, delegation_token=jaas.get("tokenauth", "").lower() == "true")

    async def exchange(self) -> Exchange:
        """One conversation. Raises AuthenticationError and BrokerConnectionError where there is no token."""
        if self._tokens is not None:
            return _bearer((await self._tokens.get()).message())
        if self.mechanism == "PLAIN":
            return _plain(self.username, self._password)
        return _scram(BY_NAME[self.mechanism], self.username, self._password, self._delegation_token)


def jaas_options(text: str) -> dict[str, str]:
    """`… required username="alice" password="secret";` as Java clients have it. Raises ClientConfigError."""
    try:
        return options_of_client(text)
    except InvalidValue as problem:
        raise ClientConfigError(f"sasl.jaas.config=(hidden): {problem}") from None


def _bearer(message: bytes) -> Exchange:
    # A refusal comes as JSON; the broker fails the login when it has been acknowledged (RFC 7628, 3.2.3).
    if (yield message):
        yield b"\x01"


def _plain(username: str, password: str) -> Exchange:
    yield b"\0" + username.encode() + b"\0" + password.encode()


def _scram(mechanism: ScramMechanism, username: str, password: str, token: bool) -> Exchange:
    try:
        yield from client_conversation(mechanism, username, password, token=token)
    except ScramError as problem:
        raise AuthenticationError(str(problem)) from None
