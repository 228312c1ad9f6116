"""Listener addresses in Kafka's notation, `NAME://host:port`, and addresses of voters, `id@host:port`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pybroker.config.setting_values import InvalidValue

SECURITY_BETWEEN = "security.inter.broker.protocol"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    return host in ("localhost", "::1") or (host.startswith("127.") and host.replace(".", "").isdecimal())


class Listener(msgspec.Struct, frozen=True):
    """One address. host: "" means every interface. port: 0 means a free port, and is only for addresses to listen on.
    """

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def host_port(text: str) -> tuple[str, int]:
    """Parse `host:port`, with brackets around an IPv6 host. Raises InvalidValue if it is malformed."""
    host, colon, port_text = text.rpartition(":")
    if not colon or not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65535:
        raise InvalidValue("expected host:port with a port between 0 and 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InvalidValue("an IPv6 address must be in brackets, such as [::1]:9092")
    return host, int(port_text)


def protocol_map(text: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL,…` into a map with upper-case names. Raises InvalidValue if it is malformed."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.partition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or not name:
            raise InvalidValue(f"expected NAME:PROTOCOL, found {pair!r}")
        if protocol not in PROTOCOLS:
            raise InvalidValue(f"{protocol!r} is not a security protocol ({', '.join(PROTOCOLS)})")
        if name in protocols:
            raise InvalidValue(f"listener {name} is mapped twice")
        protocols[name] = protocol
    return protocols


def parse_listeners(
    items: tuple[str, ...], protocols: dict[str, str], *, advertised: bool = False
) -> tuple[Listener, ...]:
    """Parse a `listeners` or `advertised.listeners` value. Names must be unique. Addresses to listen on must be unique
    too; advertised addresses need not be, because several listeners may be behind one load balancer (KAFKA-10478).
    Raises InvalidValue if the value is invalid.
    """
    listeners: list[Listener] = []
    for item in items:
        name, separator, address = item.partition("://")
        name = name.strip().upper()
        if not separator or not name:
            raise InvalidValue(f"expected NAME://host:port, found {item!r}")
        if name not in protocols:
            raise InvalidValue(f"listener {name} has no entry in listener.security.protocol.map")
        host, port = host_port(address.strip())
        if any(other.name == name for other in listeners):
            raise InvalidValue(f"listener {name} is listed twice")
        if port and not advertised and any(other.port == port and other.host == host for other in listeners):
            raise InvalidValue(f"two listeners have the address {address.strip()}")
        listeners.append(Listener(name, host, port, protocols[name]))
    return tuple(listeners)


class VoterAddress(NamedTuple):
    """One voter, with the address of its listener for brokers."""

    node_id: int
    host: str
    port: int


def parse_voters(items: Sequence[str]) -> tuple[VoterAddress, ...]:
    """Parse all voters. Raises InvalidValue if one is malformed."""
    voters: dict[int, VoterAddress] = {}
    for item in items:
        number, at, address = item.partition("@")
        if not at or not (number.isascii() and number.isdigit()):
            raise InvalidValue(f"expected id@host:port, found {item!r}")
        voter = VoterAddress(int(number), *host_port(address))
        if voter.node_id in voters:
            raise InvalidValue(f"voter {voter.node_id} has two addresses")
        voters[voter.node_id] = voter
    return tuple(voters.values())
