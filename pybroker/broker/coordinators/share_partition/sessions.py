"""Share sessions (KIP-932): the partitions that a member reads from this broker. Pure.

The member sends its partitions in the first request, and only the changes in later requests. Session epochs work as in
fetch sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

OPENS, CLOSES = 0, -1
EPOCH_MAX = 0x7FFFFFFF

TopicPartition = tuple[Uuid, int]
MemberKey = tuple[str, str]
"""(group id, member id)"""


class BrokerShareSession(msgspec.Struct, eq=False):
    """The share session of one member."""

    group: str
    member: str
    connection_id: int
    epoch: int = 1
    """The epoch that the member's next request must have."""
    partitions: dict[TopicPartition, None] = {}
    turn: int = 0
    """Number of requests so far. It determines which partition comes first in the response."""

    def rotated(self) -> list[TopicPartition]:
        """Return the partitions in rotating order: each request begins with another partition."""
        all_ = list(self.partitions)
        start = self.turn % len(all_) if all_ else 0
        return all_[start:] + all_[:start]


class ShareSessions:
    """All share sessions of this broker. `limit`: returns group.share.max.share.sessions."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._sessions: dict[MemberKey, BrokerShareSession] = {}
        self._by_connection: dict[int, set[MemberKey]] = {}
        self._of_group: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(
        self, group: str, member: str, connection_id: int, partitions: Iterable[TopicPartition]
    ) -> BrokerShareSession:
        """Open a session that replaces the member's previous one. Raise KafkaError SHARE_SESSION_LIMIT_REACHED."""
        key = group, member
        if key not in self._sessions and len(self._sessions) >= self._limit():
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"There are {len(self._sessions)} share sessions already (group.share.max.share.sessions).",
            )
        self._remove(key)
        session = BrokerShareSession(group, member, connection_id, partitions=dict.fromkeys(partitions))
        self._sessions[key] = session
        self._by_connection.setdefault(connection_id, set()).add(key)
        self._of_group[group] = self._of_group.get(group, 0) + 1
        return session

    def next(self, group: str, member: str, epoch: int, connection_id: int) -> BrokerShareSession:
        """Return the session that a request continues. The epoch CLOSES ends the session.

        Raise KafkaError SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get((group, member))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == CLOSES:
            return session
        if epoch != session.epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"The next epoch of the share session is {session.epoch}, not {epoch}.",
            )
        if connection_id != session.connection_id:
            self._leave_connection(session)
            session.connection_id = connection_id
            self._by_connection.setdefault(connection_id, set()).add((group, member))
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.turn += 1
        return session

    def close(self, session: BrokerShareSession) -> bool:
        """Close a session. Return whether it was the last session of its group on this broker."""
        key = session.group, session.member
        if self._sessions.get(key) is session:
            self._remove(key)
        return not self.has_group(session.group)

    def holds(self, session: BrokerShareSession) -> bool:
        """Return whether the session is open, and no newer session of the member has replaced it."""
        return self._sessions.get((session.group, session.member)) is session

    def has_group(self, group: str) -> bool:
        """Return whether a member of the group reads from this broker."""
        return group in self._of_group

    def of_connection(self, connection_id: int) -> list[BrokerShareSession]:
        """Return the sessions of a connection."""
        return [self._sessions[key] for key in self._by_connection.get(connection_id, ())]

    def _remove(self, key: MemberKey) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self._leave_connection(session)
        self._of_group[session.group] -= 1
        if not self._of_group[session.group]:
            del self._of_group[session.group]

    def _leave_connection(self, session: BrokerShareSession) -> None:
        keys = self._by_connection.get(session.connection_id)
        if keys is not None:
            keys.discard((session.group, session.member))
            if not keys:
                del self._by_connection[session.connection_id]
