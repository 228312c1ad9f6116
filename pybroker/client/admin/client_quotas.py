"""AdminClient's call about clients' quotas (KIP-546)."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.client.admin.base import AdminBase
from pybroker.client.errors import broker_error
from pybroker.protocol import messages as m


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """entity: type (`user`, `client-id`, `ip`) → name, None for the default of that type. limits: quota → its value."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class ClientQuotasAdmin(AdminBase):
    """Quotas of users, client ids and addresses."""

    async def describe_client_quotas(self) -> list[ClientQuota]:
        """All that are set. Needs DESCRIBE_CONFIGS on the cluster."""
        answer = await self._network.ask(m.DescribeClientQuotasRequest(components=[], strict=False))
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="client quotas")
        return [
            ClientQuota(
                {each.entity_type: each.entity_name for each in row.entity},
                {each.key: each.value for each in row.values},
            )
            for row in answer.entries or ()
        ]
