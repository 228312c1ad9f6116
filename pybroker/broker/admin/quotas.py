"""Quotas of users, client ids and addresses: alter and describe (KIP-546, KIP-612). Independent of protocol versions.

A quota takes effect on every broker before the response: `replicas/quota_publisher.py` publishes it to native code.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import AlterClientQuotas, QuotaChange
from pybroker.broker.metadata.quota_nodes import (
    CLIENT_ID,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    USER,
    Entity,
    QuotaKind,
    stored_quotas,
    without_brackets,
)
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

NAME_BYTES_MAX = 255
"""Maximum bytes of the name of a user, client id or address, because the name becomes part of a path."""

FRACTION_MAX = 1e-6
"""Tolerated deviation of a quota from an integer, for quotas that must be integers."""

TYPES = (USER, CLIENT_ID, IP)


class Alteration(msgspec.Struct, frozen=True):
    """The requested quota changes of one entity."""

    entity: Sequence[tuple[str, str | None]]
    """Entity types and names; the name None means the default of the type."""
    values: Sequence[tuple[str, float | None]]
    """The quotas and their new values; None removes a quota."""


class Match(IntEnum):
    """Match types of a filter component, numbered as on the wire."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Component(msgspec.Struct, frozen=True):
    """One component of a filter."""

    entity_type: str
    match: int
    name: str | None


class QuotaAdmin:
    """The quota requests. Reads the cluster view and submits changes to the controller."""

    def __init__(self, view: ClusterView, controller: ControllerClient) -> None:
        self._view = view
        self._controller = controller

    async def alter(
        self, alterations: Sequence[Alteration], caller: Caller, turns: LoopShares, *, validate_only: bool
    ) -> list[KafkaError | None]:
        """Return for each entity None if its quotas were changed, or the error. An entity with an error is unchanged.
        """
        results = [await _problem(alteration) async for alteration in turns.each(alterations)]
        changes = [
            QuotaChange(tuple(sorted(alteration.entity)), _texts(dict(alteration.values)))
            async for alteration, problem in turns.each(zip(alterations, results, strict=True))
            if problem is None
        ]
        if validate_only or not changes:
            return results
        try:
            answer = await self._controller.submit(AlterClientQuotas(tuple(changes)), caller=caller)
        except KafkaError as refusal:
            # The response has no error code for the whole request, so each entity gets the error.
            return [problem or refusal for problem in results]
        decided = iter(zip(changes, answer.reply, strict=True))
        async for place, problem in turns.each(enumerate(results)):
            if problem is None:
                change, error = next(decided)
                results[place] = error or answer.late
                if error is None:
                    log.info(
                        "quotas changed by=%r entity=%s: %s", caller.principal, dict(change.entity), dict(change.values)
                    )
        return results

    def describe(self, components: Sequence[Component], *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
        """Return the entities that match a filter, with their quotas. If `strict` is true, an entity must not have
        components of other types than the filter. Raises KafkaError INVALID_REQUEST if the filter is malformed,
        UNSUPPORTED_VERSION if an entity type is unknown.
        """
        _check_filter(components)
        found: list[tuple[Entity, dict[str, float]]] = []
        for entity, stored in stored_quotas(self._view.image):
            if _means(components, dict(entity), strict=strict):
                values = _numbers(entity, stored)
                if values:
                    found.append((entity, values))
        return sorted(found, key=lambda one: [(kind, name is not None, name or "") for kind, name in one[0]])


def _means(components: Sequence[Component], entity: Mapping[str, str | None], *, strict: bool) -> bool:
    if strict and len(entity) != len(components):
        return False
    return all(
        component.entity_type in entity
        and (component.match == Match.ANY or entity[component.entity_type] == component.name)
        for component in components
    )


def _check_filter(components: Sequence[Component]) -> None:
    types = [component.entity_type for component in components]
    for component in components:
        if not component.entity_type:
            raise _invalid("The filter names an empty entity type.")
        if component.entity_type not in TYPES:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas for entity type {component.entity_type!r}."
            )
        if types.count(component.entity_type) > 1:
            raise _invalid(f"The filter names entity type {component.entity_type} more than once.")
        if component.match not in list(Match):
            raise _invalid(f"There is no match type {component.match}.")
        if (component.match == Match.EXACT) != (component.name is not None):
            raise _invalid("An exact match needs a name, and no other match type has one.")
    if IP in types and len(types) > 1:
        raise _invalid("Quotas of an IP address apply to all users and client ids: do not filter for both.")


async def _problem(one: Alteration) -> KafkaError | None:
    types = [kind for kind, _ in one.entity]
    if not types:
        return _invalid("The entity of a quota is empty.")
    for kind, name in one.entity:
        if kind not in TYPES:
            return _invalid(f"There are no quotas for entity type {kind!r}.")
        if types.count(kind) > 1:
            return _invalid(f"The entity names {kind} more than once.")
        if name == "":
            return _invalid(f"The name of the {kind} is empty. Use null for the default.")
        if name is not None and len(name.encode()) > NAME_BYTES_MAX:
            return _invalid(f"The name of a {kind} is longer than {NAME_BYTES_MAX} bytes.")
    if IP not in types:
        return _problem_of_values(one.values, OF_CLIENTS)
    if len(types) > 1:
        return _invalid("Quotas of an IP address apply to all users and client ids: do not name both.")
    ((_, address),) = one.entity
    if address is not None and not await _is_address(address):
        return _invalid(f"{address} is neither an IP address nor a host name that can be resolved.")
    return _problem_of_values(one.values, OF_ADDRESSES)


def _problem_of_values(
    values: Sequence[tuple[str, float | None]], known: Mapping[str, QuotaKind]
) -> KafkaError | None:
    if len({name for name, _ in values}) < len(values):
        return _invalid("The request names a quota more than once for one entity.")
    for name, value in values:
        if value is None:
            continue  # Removing a quota that does not exist is not an error, even if no quota has that name.
        kind = known.get(name)
        if kind is None:
            return _invalid(f"There is no quota {name!r} for this entity type. There are: {', '.join(known)}.")
        if not value > 0 or math.isinf(value):
            return _invalid(f"Quota {name} must be greater than 0 and finite, not {value}.")
        # Compare as floats: the highest INT64 is rounded up.
        if value > float(kind.highest):
            return _invalid(f"Quota {name} is too large: {value}.")
        if kind.integral and value % 1.0 > FRACTION_MAX:
            return _invalid(f"Quota {name} must be a whole number, not {value}.")
    return None


async def _is_address(text: str) -> bool:
    text = without_brackets(text)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        try:
            return bool(await asyncio.get_running_loop().getaddrinfo(text, None))
        except (OSError, UnicodeError):
            return False
    return True


def _texts(values: Mapping[str, float | None]) -> dict[str, str | None]:
    """Return the values as Kafka stores them."""
    kinds = {**OF_CLIENTS, **OF_ADDRESSES}
    return {name: None if value is None else _text(kinds[name], value) for name, value in values.items()}


def _text(kind: QuotaKind, value: float) -> str:
    return str(min(int(value), int(kind.highest))) if kind.integral else repr(float(value))


def _numbers(entity: Entity, stored: Mapping[str, str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, text in stored.items():
        try:
            values[name] = float(text)
        except ValueError:
            log.error("ignored a damaged quota name=%s entity=%s value=%r", name, dict(entity), text)
    return values


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
