"""SASL on the client: PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from pybroker.client.client_errors import AuthenticationError, ClientConfigError
from pybroker.client.config import ClientConfig
from pybroker.config.jaas import options_of_client
from pybroker.config.setting_values import InvalidValue
from pybroker.protocol.scram import BY_NAME, ScramError, ScramMechanism, client_conversation

if TYPE_CHECKING:
    from pybroker.client.connection.oauth import TokenSource

Exchange = Generator[bytes, bytes, None]
"""Generator that yields the client's messages and receives the broker's. It returns when it has authenticated the
broker.
"""


class SaslCredentials:
    """The identity with which a client logs in: mechanism, and user and password, or a token source. Its repr shows no
    secret.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        tokens: TokenSource | None = None,
        *,
        delegation_token: bool = False,
    ) -> None:
        """delegation_token: True if user and password are the id and HMAC of a delegation token (KIP-48)."""
        self._delegation_token = delegation_token
        self.mechanism = mechanism
        self.username = username
        self._password = password
        self._tokens = tokens

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username})"

    @property
    def who(self) -> str:
        """The identity, for error messages."""
        return f"user {self.username}" if self._tokens is None else "by a token"

    @classmethod
    def of(cls, config: ClientConfig) -> SaslCredentials | None:
        """Read `sasl.*`; return None if `security.protocol` has no SASL. Raises ClientConfigError if a setting is
        missing.
        """
        if not config["security.protocol"].startswith("SASL_"):
            return None
        mechanism, user, password = config["sasl.mechanism"], config["sasl.username"], config["sasl.password"]
        line = config["sasl.jaas.config"]
        jaas = {} if line is None else jaas_options(line)
        if mechanism == "OAUTHBEARER":
            # Imported here, because it imports an HTTP client.
            from pybroker.client.connection.oauth import TokenSource

            return cls(mechanism, "", "", config.once("tokens", lambda: TokenSource(config, jaas)))
        if line is not None:
            user, password = jaas.get("username"), jaas.get("password")
        for name, value in (("mechanism", mechanism), ("username", user), ("password", password)):
            if value is None:
                raise ClientConfigError(f"security.protocol={config['security.protocol']} requires sasl.{name}")
        return cls(mechanism, user, password, delegation_token=jaas.get("tokenauth", "").lower() == "true")

    async def exchange(self) -> Exchange:
        """Return a new exchange. Raises AuthenticationError and BrokerConnectionError if it cannot get a token."""
        if self._tokens is not None:
            return _bearer((await self._tokens.get()).message())
        if self.mechanism == "PLAIN":
            return _plain(self.username, self._password)
        return _scram(BY_NAME[self.mechanism], self.username, self._password, self._delegation_token)


def jaas_options(text: str) -> dict[str, str]:
    """Parse a JAAS line, `… required username="alice" password="secret";`, as Java clients do. Raises ClientConfigError
    if it is malformed.
    """
    try:
        return options_of_client(text)
    except InvalidValue as problem:
        raise ClientConfigError(f"sasl.jaas.config=(hidden): {problem}") from None


def _bearer(message: bytes) -> Exchange:
    # The broker sends an error as JSON. The client acknowledges it, and then the broker fails the login (RFC 7628,
    # 3.2.3).
    if (yield message):
        yield b"\x01"


def _plain(username: str, password: str) -> Exchange:
    yield b"\0" + username.encode() + b"\0" + password.encode()


def _scram(mechanism: ScramMechanism, username: str, password: str, token: bool) -> Exchange:
    try:
        yield from client_conversation(mechanism, username, password, token=token)
    except ScramError as problem:
        raise AuthenticationError(str(problem)) from None
