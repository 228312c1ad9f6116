"""The memory limit for the metadata of classic members.

A JoinGroup carries the protocols and subscriptions that a member supports, as bytes that only clients understand.
The coordinator keeps them as long as the member is in the group. Members of other protocols are stored one record
each, which `message.max.bytes` limits.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group.figures import GroupFigures
from pybroker.broker.coordinators.group.group import Protocols, metadata_bytes
from pybroker.broker.coordinators.group.ports import Settings
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

COUNTED_FOR_MS = 1_000


class MemberMetadata:
    """Refuses members with too much metadata.

    `count` returns the bytes of all members. It is called at most once a second; metadata accepted in between is
    added.
    """

    def __init__(self, settings: Settings, figures: GroupFigures, clock: Clock, count: Callable[[], int]) -> None:
        self._settings = settings
        self._figures = figures
        self._clock = clock
        self._count = count
        self._bytes = 0
        self._counted_ms: int | None = None

    def require_room(self, protocols: Protocols) -> None:
        """Raise KafkaError GROUP_MAX_SIZE_REACHED if the metadata exceeds a limit."""
        size, most = metadata_bytes(protocols), self._settings.max_metadata_bytes
        if size > most:
            raise self._refusal(f"{size} bytes of metadata are more than group.max.metadata.bytes={most}.")
        now_ms, most = self._clock.monotonic_ms(), self._settings.max_metadata_bytes_total
        if self._counted_ms is None or now_ms - self._counted_ms >= COUNTED_FOR_MS:
            self._bytes, self._counted_ms = self._count(), now_ms
        if self._bytes + size > most:
            raise self._refusal(f"The metadata of all members would exceed group.max.metadata.bytes.total={most}.")
        self._bytes += size

    def _refusal(self, text: str) -> KafkaError:
        self._figures.joins_refused += 1
        return KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
