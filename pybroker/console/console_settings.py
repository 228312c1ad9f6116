"""What the console was told when it was started."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pybroker.client import ClientConfigError

REQUEST_TIMEOUT_MS = 10_000
API_TIMEOUT_MS = 15_000
"""People do not wait for a page as long as programs wait for an answer."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """client_config: settings of the clients under Kafka's names, `bootstrap.servers` among them. host, port: where it
    listens; port 0 takes a free one. without_login: everybody who reaches it acts as the client that `client_config`
    describes. host_names: names under which it may be asked, beside addresses and localhost. idle_timeout_s: after this
    time without a request one has to log in again. metrics_urls: of brokers' /metrics, for the charts.
    """

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
        """Whether the brokers' listener wants a login."""
        return str(self.client_config.get("security.protocol", "")).upper().startswith("SASL_")

    @property
    def needs_login(self) -> bool:
        """Whether each person acts as a user of the broker's."""
        return self.has_sasl and not self.without_login

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism that is settled; else people choose it."""
        return self.client_config.get("sasl.mechanism")

    def common_config(self) -> dict[str, Any]:
        """For all clients; without anybody's credentials if people log in."""
        given = dict(self.client_config)
        if self.needs_login:
            for name in ("sasl.username", "sasl.password", "sasl.jaas.config"):
                given.pop(name, None)
        return {
            "client.id": "pybroker-console",
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "default.api.timeout.ms": API_TIMEOUT_MS,
            **given,
        }

    def check(self) -> None:
        """Raises ClientConfigError for what would leave the cluster open to everybody."""
        if not is_loopback(self.host) and not self.needs_login and not self.without_login:
            raise ClientConfigError(
                f"--listen {self.host}:{self.port}: every client on the network could change the cluster. Require "
                "a login (security.protocol=SASL_SSL or SASL_PLAINTEXT in --command-config), or allow this with "
                "--without-login."
            )
        if (self.certificate is None) != (self.key is None):
            raise ClientConfigError("--certificate and --key must be used together")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
