"""The settings of the console's process."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pybroker.client import ClientConfigError

REQUEST_TIMEOUT_MS = 10_000
API_TIMEOUT_MS = 15_000
"""Request timeout of the console's clients in milliseconds. It is shorter than for programs, because people do not wait
long for a page."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """client_config: settings of the clients under Kafka's names, `bootstrap.servers` among them. host, port: the
    address to listen on; port 0 takes a free one. without_login: every visitor acts as the client of `client_config`.
    host_names: host names that browsers may use for the console, besides addresses and localhost. idle_timeout_s:
    seconds without requests after which a session ends. metrics_urls: the brokers' /metrics, for the charts."""

    client_config: Mapping[str, Any]
    host: str = "127.0.0.1"
    port: int = 8080
    without_login: bool = False
    host_names: tuple[str, ...] = ()
    idle_timeout_s: float = 1800.0
    metrics_urls: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def has_sasl(self) -> bool:
        """Whether the brokers' listener requires a login."""
        return str(self.client_config.get("security.protocol", "")).upper().startswith("SASL_")

    @property
    def needs_login(self) -> bool:
        """Whether each person logs in as a user of the broker."""
        return self.has_sasl and not self.without_login

    @property
    def mechanism(self) -> str | None:
        """The configured SASL mechanism; None: people choose it on the login page."""
        return self.client_config.get("sasl.mechanism")

    def common_config(self) -> dict[str, Any]:
        """Settings of all clients; without credentials if people log in."""
        client_config = dict(self.client_config)
        if self.needs_login:
            for name in ("sasl.username", "sasl.password", "sasl.jaas.config"):
                client_config.pop(name, None)
        return {
            "client.id": "pybroker-console",
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "default.api.timeout.ms": API_TIMEOUT_MS,
            **client_config,
        }

    def check(self) -> None:
        """Raise ClientConfigError for settings that would open the cluster to everyone."""
        if not is_loopback(self.host) and not self.needs_login and not self.without_login:
            raise ClientConfigError(
                f"--listen {self.host}:{self.port}: every client on the network could change the cluster. Require "
                "a login (security.protocol=SASL_SSL or SASL_PLAINTEXT in --command-config), or allow this with "
                "--without-login."
            )
        if (self.certificate is None) != (self.key is None):
            raise ClientConfigError("--certificate and --key must be used together")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
