"""The memory limit for the metadata of group members.

A JoinGroup carries the protocols and subscriptions that a classic member supports, as bytes that only clients
understand. Members of other group types send topic names, regular expressions, a topology, racks or tags in heartbeats.
The coordinator keeps this metadata as long as the member is in the group. The total includes the memory of the members
and groups themselves, because clients choose their names and their number.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.group.classic_group import member_bytes, metadata_bytes
from pybroker.broker.coordinators.group.interfaces import GroupCoordinatorSettings
from pybroker.broker.coordinators.group_base.group_statistics import GroupStatistics
from pybroker.broker.coordinators.group_base.requests import JoinRequest
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

COUNTED_FOR_MS = 1_000


class MemberMetadata:
    """Refuses members whose metadata exceeds a limit.

    `count` returns the bytes of all members. It runs at most once a second. Between two runs, the size of newly
    accepted metadata is added to the last result.
    """

    def __init__(
        self, settings: GroupCoordinatorSettings, statistics: GroupStatistics, clock: Clock, count: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._statistics = statistics
        self._clock = clock
        self._count = count
        self._bytes = 0
        self._counted_ms: int | None = None

    def require_room_of(self, request: JoinRequest, group_id: str) -> None:
        """Raise KafkaError GROUP_MAX_SIZE_REACHED if a classic member's metadata exceeds a limit."""
        is_new = not request.member_id
        beside = len(group_id) + member_bytes(request.client_id, request.instance_id) if is_new else 0
        self.require_room(metadata_bytes(request.protocols), beside=beside)

    def require_room(self, size: int, before: int = 0, beside: int = 0) -> None:
        """Raise KafkaError GROUP_MAX_SIZE_REACHED if a member's metadata of `size` bytes exceeds a limit.

        `before`: the size of the metadata that is replaced. `beside`: the memory of a new member besides its metadata.
        If the metadata does not grow, the member is never refused, because it may be repeating a request whose response
        was lost.
        """
        if size <= before and not beside:
            return
        most = self._settings.max_metadata_bytes
        if size > max(most, before):
            raise self._refusal(f"{size} bytes of metadata are more than group.max.metadata.bytes={most}.")
        now_ms, most = self._clock.monotonic_ms(), self._settings.max_metadata_bytes_total
        if self._counted_ms is None or now_ms - self._counted_ms >= COUNTED_FOR_MS:
            self._bytes, self._counted_ms = self._count(), now_ms
        growth = size - before + beside
        if self._bytes + growth > most:
            raise self._refusal(f"All members with their metadata would exceed group.max.metadata.bytes.total={most}.")
        self._bytes += growth

    def _refusal(self, text: str) -> KafkaError:
        self._statistics.joins_refused += 1
        return KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
