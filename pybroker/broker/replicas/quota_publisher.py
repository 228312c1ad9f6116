"""Passes the controller's changes of client quotas to native code, in order."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
from collections.abc import Iterable, Mapping

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.quota_nodes import (
    CLIENT_ID,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    USER,
    Entity,
    entity_of,
    without_brackets,
)
from pybroker.native import ClientQuota, NativeBroker

log = logging.getLogger(__name__)

RESOLVE_S = 5.0
"""Time limit for the resolution of a host name."""

Addresses = list[tuple[str | None, float | None]]


class ClientQuotas:
    """The `ImageObserver` for client quotas."""

    def __init__(self, native: NativeBroker) -> None:
        self._native = native
        self._hosts: dict[str, tuple[str, ...]] = {}
        """The addresses of host names that have a quota, resolved when the quota was set."""

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply the quotas to requests that start later. A throttled client continues if it no longer exceeds its
        quota."""
        full = isinstance(change, ClusterImage)
        changed = [(_user(name), user.config) for name, user in change.users.items()]
        changed += [
            (entity, node.config) for path, node in change.quotas.items() if (entity := entity_of(path)) is not None
        ]
        clients = [_quota(entity, config) for entity, config in changed if entity[0][0] != IP]
        if not full:
            # If only a user's password changes, and the user has no quota, the table does not change.
            clients = [client for client in clients if _is_set(client) or _was_set(before, client)]
        addresses = await self._addresses((entity, config) for entity, config in changed if entity[0][0] == IP)
        if full or clients or addresses:
            self._native.quotas.publish(clients=clients, addresses=addresses, full=full)

    async def _addresses(self, changed: Iterable[tuple[Entity, Mapping[str, str]]]) -> Addresses:
        (rate_name,) = OF_ADDRESSES
        found: Addresses = []
        for ((_, name),), config in changed:
            rate = _number(config, rate_name, name)
            if name is None:
                found.append((None, rate))
                continue
            known = self._hosts.pop(name, ())
            resolved = await _resolved(name) if rate is not None else ()
            if resolved:
                self._hosts[name] = resolved
            found += [(address, None) for address in known if address not in resolved]
            itself = [name] if _is_address(name) and name not in known else []
            found += [(address, rate) for address in resolved or itself]
        return found


def _user(name: str) -> Entity:
    return ((USER, name),)


def _quota(entity: Entity, config: Mapping[str, str]) -> ClientQuota:
    parts = {kind: name or "" for kind, name in entity}
    whose = str(dict(entity))
    return ClientQuota(parts.get(USER), parts.get(CLIENT_ID), *(_number(config, name, whose) for name in OF_CLIENTS))


def _is_set(quota: ClientQuota) -> bool:
    return any(
        value is not None
        for value in (
            quota.producer_byte_rate,
            quota.consumer_byte_rate,
            quota.request_percentage,
            quota.controller_mutation_rate,
        )
    )


def _was_set(before: ClusterImage, quota: ClientQuota) -> bool:
    if not quota.user or quota.client_id is not None:
        return True
    user = before.users.get(quota.user)
    return user is not None and any(name in user.config for name in OF_CLIENTS)


def _number(config: Mapping[str, str], name: str, whose: str | None) -> float | None:
    text = config.get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        log.error("ignored a damaged quota name=%s of=%s value=%r", name, whose, text)
        return None
    return value


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


async def _resolved(name: str) -> tuple[str, ...]:
    """Return the current addresses of a name. Kafka resolves names in the same way."""
    name = without_brackets(name)
    if _is_address(name):
        return (name,)
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as problem:
        log.error("ignored the quota of a host whose name cannot be resolved host=%s: %s", name, problem)
        return ()
    return tuple(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))
