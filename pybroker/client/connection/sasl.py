"""The client's side of SASL: who logs in, and by which mechanism: PLAIN (RFC 4616) or SCRAM."""

from __future__ import annotations

import re
from collections.abc import Generator

from pybroker.client.config import ClientConfig
from pybroker.client.errors import AuthenticationError, ClientConfigError
from pybroker.protocol.scram import BY_NAME, ScramError, ScramMechanism, client_conversation

Exchange = Generator[bytes, bytes, None]
"""Gives what we say, is sent what the broker says; ends when we believe the broker."""


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
        return _scram(BY_NAME[self.mechanism], self.username, self._password)


def _of_jaas(text: str) -> tuple[str | None, str | None]:
    """`… required username="alice" password="secret";` as Java clients have it."""
    found = dict(re.findall(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"", text))
    plain = {name: re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
    return plain.get("username"), plain.get("password")


def _plain(username: str, password: str) -> Exchange:
    yield b"\0" + username.encode() + b"\0" + password.encode()


def _scram(mechanism: ScramMechanism, username: str, password: str) -> Exchange:
    try:
        yield from client_conversation(mechanism, username, password)
    except ScramError as problem:
        raise AuthenticationError(str(problem)) from None
