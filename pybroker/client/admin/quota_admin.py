"""AdminClient's calls about client quotas (KIP-546, KIP-612)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.client_errors import broker_error
from pybroker.protocol import messages as m

DEFAULT = ""
"""The name of the default entity of a type."""

_EXACT, _DEFAULT = 0, 1
_TYPES = {"user": "user", "client-id": "client_id", "ip": "ip"}


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity of a quota: a user, a client id, both, or an IP address. A part that is None is not in the entity; a
    part that is DEFAULT is the default of its type.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or '(default)'}" for kind, name in self.parts.items())

    @property
    def parts(self) -> dict[str, str | None]:
        """Kafka's entity type → name; None is the default of the type."""
        names = {kind: getattr(self, field) for kind, field in _TYPES.items()}
        return {kind: name or None for kind, name in names.items() if name is not None}


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """The quotas of an entity. entity: type (`user`, `client-id`, `ip`) → name, None for the default of that type."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class ClientQuotasAdmin(AdminBase):
    """Calls about quotas of users, client ids and addresses."""

    async def describe_client_quotas(self, entity: QuotaEntity | None = None) -> list[ClientQuota]:
        """Return all quotas, or the quotas set for `entity`. Needs DESCRIBE_CONFIGS on the cluster."""
        components = [
            m.DescribeClientQuotasRequest_ComponentData(
                entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
            )
            for kind, name in (entity.parts if entity is not None else {}).items()
        ]
        request = m.DescribeClientQuotasRequest(components=components, strict=entity is not None)
        answer = await self._network.ask(request)
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="client quotas")
        return [
            ClientQuota(
                {each.entity_type: each.entity_name for each in row.entity},
                {each.key: each.value for each in row.values},
            )
            for row in answer.entries or ()
        ]

    def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> KeyedResult[QuotaEntity, None]:
        """Set quotas by Kafka's names (`producer_byte_rate`, …). The value None removes a quota."""
        entries = [
            m.AlterClientQuotasRequest_EntryData(
                entity=[
                    m.AlterClientQuotasRequest_EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.parts.items()
                ],
                ops=[
                    m.AlterClientQuotasRequest_OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ]
        request = m.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)

        async def work(futures: Futures[QuotaEntity, None]) -> None:
            answer = await self._controller(request, lambda response: response.entries)
            for entity, row in zip(changes, answer.entries, strict=True):
                settle(futures[entity], row.error_code, row.error_message, None, f"quotas of {entity}")

        return KeyedResult(start(changes, work))
