"""`max.connections.per.ip.overrides`: `host:count` pairs. Native code takes addresses; this module resolves names.

Behavior
* A name means all of its addresses at the time when the setting takes effect.
* An unknown name is an error on the broker that gets the request; other brokers ignore it.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address

from pybroker.config.setting_values import InvalidValue

NAME = "max.connections.per.ip.overrides"
COUNT_MAX = (1 << 31) - 1

_HOST = re.compile(r"[0-9A-Za-z_.\-]+")
_resolved: dict[str, tuple[str, ...]] = {}
"""Name → addresses, for the names in settings."""


def check(value: object) -> None:
    """Validate the text. Raises InvalidValue."""
    _pairs(str(value or ""))


def unresolved(text: str) -> list[str]:
    """Return the names in a valid text that are not resolved yet."""
    return [host for host, _ in _pairs(text) if not _is_address(host) and host not in _resolved]


def resolve(text: str) -> None:
    """Resolve all names in the text; blocks during the lookup. Raises InvalidValue."""
    for host in (host for host, _ in _pairs(text) if not _is_address(host)):
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as problem:
            raise InvalidValue(f"unknown host {host} ({problem.strerror})") from None
        _resolved[host] = tuple(sorted({str(address[4][0]) for address in found}))


def by_address(text: str) -> str:
    """Return the pairs for native code. A literal address overrides a name with that address."""
    counts: dict[str, int] = {}
    pairs = _pairs(text)
    for host, count in pairs:
        counts.update(dict.fromkeys(_resolved.get(host, ()), count))
    counts.update({host: count for host, count in pairs if _is_address(host)})
    return ",".join(f"{address}:{count}" for address, count in counts.items())


def _pairs(text: str) -> list[tuple[str, int]]:
    found = []
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = pair.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        digits = count.strip()
        if not colon or not host or not (digits.isascii() and digits.isdecimal()):
            raise InvalidValue(f"expected address:count, found {pair!r}")
        if not (_is_address(host) or _HOST.fullmatch(host)):
            raise InvalidValue(f"{host!r} is neither an address nor a host name")
        if len(digits) > len(str(COUNT_MAX)) or int(digits) > COUNT_MAX:
            raise InvalidValue(f"{digits} is above {COUNT_MAX}")
        found.append((host, int(digits)))
    return found


def _is_address(host: str) -> bool:
    try:
        return "%" not in host and bool(ip_address(host))
    except ValueError:
        return False
