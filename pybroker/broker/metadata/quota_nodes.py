"""Users and client quotas: their znodes as in Kafka on ZooKeeper (KIP-84, KIP-124, KIP-546, KIP-554, KIP-612):

    /config/users/[user]                    SCRAM credentials and quotas of the user
    /config/users/[user]/clients/[client]
    /config/clients/[client]
    /config/ips/[address]

The default of each kind has the name <default>, which no sanitized name can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pybroker.broker.metadata.znodes import sanitized

if TYPE_CHECKING:
    from pybroker.broker.metadata.image import ClusterImage

USER_CONFIGS = "/config/users"


def user_path(name: str) -> str:
    """Return the znode's path for a user."""
    return f"{USER_CONFIGS}/{sanitized(name)}"


def user_of_path(path: str) -> str:
    """Return the user of a path."""
    return unquote(path.removeprefix(USER_CONFIGS + "/"))


USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Kafka's entity types."""

CLIENT_CONFIGS = "/config/clients"
IP_CONFIGS = "/config/ips"
DEFAULT = "<default>"
_CLIENTS = "clients"

Entity = tuple[tuple[str, str | None], ...]
"""(entity type, name) in the order of types. A name of None means the default of the type. `path_of` accepts a user, a
client id, both, or an address."""


class QuotaKind(NamedTuple):
    """The type of a quota's value."""

    integral: bool
    highest: float


_LONG, _INT, _DOUBLE = QuotaKind(True, 2**63 - 1), QuotaKind(True, 2**31 - 1), QuotaKind(False, float("inf"))

OF_CLIENTS: Mapping[str, QuotaKind] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": _DOUBLE,
    "controller_mutation_rate": _DOUBLE,
}
"""Quotas of users and client ids."""

OF_ADDRESSES: Mapping[str, QuotaKind] = {"connection_creation_rate": _INT}


def path_of(entity: Entity) -> str:
    """Return the path of the znode with the quotas of an entity."""
    match dict(entity):
        case {"ip": address}:
            return f"{IP_CONFIGS}/{_name(address)}"
        case {"user": user, "client-id": client}:
            return f"{USER_CONFIGS}/{_name(user)}/{_CLIENTS}/{_name(client)}"
        case {"user": user}:
            return f"{USER_CONFIGS}/{_name(user)}"
        case {"client-id": client}:
            return f"{CLIENT_CONFIGS}/{_name(client)}"
    raise AssertionError(entity)


def entity_of(path: str) -> Entity | None:
    """Return the entity of a path; None if the znode is only a parent of quota znodes."""
    match path.split("/")[2:]:
        case ["ips", address]:
            return ((IP, _unnamed(address)),)
        case ["clients", client]:
            return ((CLIENT_ID, _unnamed(client)),)
        case ["users", user]:
            return ((USER, _unnamed(user)),)
        case ["users", user, "clients", client]:
            return (CLIENT_ID, _unnamed(client)), (USER, _unnamed(user))
    return None


def is_credentials(path: str) -> bool:
    """Return whether the path is that of a user, whose znode also contains the user's credentials."""
    entity = entity_of(path)
    return entity is not None and len(entity) == 1 and entity[0][0] == USER and entity[0][1] is not None


def parents_of(path: str) -> tuple[str, ...]:
    """Return the parents of this path from the top, without the znodes that always exist."""
    parts = path.split("/")
    return tuple("/".join(parts[:length]) for length in range(4, len(parts)))


def stored_quotas(image: ClusterImage) -> Iterator[tuple[Entity, Mapping[str, str]]]:
    """Yield all entities with quotas, with their values as texts."""
    for user, node in image.users.items():
        found = {name: value for name, value in node.config.items() if name in OF_CLIENTS}
        if found:
            yield ((USER, user),), found
    for path, node in image.quotas.items():
        entity = entity_of(path)
        if entity is not None and node.config:
            yield entity, node.config


def _name(name: str | None) -> str:
    return DEFAULT if name is None else sanitized(name)


def _unnamed(part: str) -> str | None:
    return None if part == DEFAULT else unquote(part)


def without_brackets(host: str) -> str:
    """Return a host without the brackets of an IPv6 address. Kafka also accepts the brackets."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host
