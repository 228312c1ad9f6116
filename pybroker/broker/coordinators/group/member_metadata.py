"""How much memory the metadata of classic members takes: each member says in JoinGroup what it supports and subscribes
to, as bytes that only clients understand, and the coordinator keeps them for as long as it is a member.

Members of other protocols are stored one record each, which `message.max.bytes` bounds.
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
    """Refuses members that bring too much. `count`: the bytes of all members; asked once a second at most, what is let
    in meanwhile is added."""

    def __init__(self, settings: Settings, figures: GroupFigures, clock: Clock, count: Callable[[], int]) -> None:
        self._settings = settings
        self._figures = figures
        self._clock = clock
        self._count = count
        self._bytes = 0
        self._counted_ms: int | None = None

    def require_room(self, protocols: Protocols) -> None:
        """KafkaError GROUP_MAX_SIZE_REACHED."""
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
