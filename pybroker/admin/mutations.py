"""How many partitions a client may make and remove (`controller_mutation_rate`, KIP-599). Knows no protocol version."""

from __future__ import annotations

from pybroker.errors import KafkaError
from pybroker.native import NativeQuotas
from pybroker.protocol.error_codes import ErrorCode
from pybroker.requests.context import RequestContext


class MutationQuota:
    """Of one request, whose topics are counted one after another. `strict`: its client knows
    THROTTLING_QUOTA_EXCEEDED, and is refused while it owes some; others are slowed down only."""

    def __init__(self, native: NativeQuotas, context: RequestContext, *, strict: bool) -> None:
        self._native = native
        self._user = context.principal.partition(":")[2]
        self._client_id = context.client_id or ""
        self._strict = strict
        self.throttle_time_ms = 0
        """How long the client has to wait."""

    def take(self, partitions: int) -> KafkaError | None:
        """Counts a topic's partitions; the error if they are refused, and not counted."""
        taken, wait_ms = self._native.mutate(self._user, self._client_id, max(partitions, 1), strict=self._strict)
        self.throttle_time_ms = max(self.throttle_time_ms, wait_ms)
        if taken:
            return None
        return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
