"""Fetch sessions (KIP-227): requests after the first carry only changes, by topic id if ids are known."""

from __future__ import annotations

from typing import Any, NamedTuple

from pybroker.client.cluster_metadata import TopicPartition
from pybroker.native import Uuid
from pybroker.protocol import messages as m

BY_ID = 13


class FetchPartition(NamedTuple):
    """The fetch parameters of one partition."""

    topic_id: Uuid
    leader_epoch: int
    offset: int


class FetchSession:
    """The fetch session with one broker."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._known: dict[TopicPartition, FetchPartition] = {}
        self._by_id = False

    def reset(self) -> None:
        """Make the next request a full request, because the broker has dropped the session or the state of the session
        is uncertain.
        """
        self._id = self._epoch = 0
        self._known = {}

    def ask(self, wanted: dict[TopicPartition, FetchPartition], version: int) -> tuple[int, int, list[Any], list[Any]]:
        """Return (session id, epoch, topics, forgotten topics) of a request for these partitions."""
        by_id = version >= BY_ID
        if self._id and by_id != self._by_id:
            self.reset()
        self._by_id = by_id
        if not self._id:
            changed, gone = wanted, {}
        else:
            changed = {where: want for where, want in wanted.items() if self._known.get(where) != want}
            # The name has a new id. Forget the old id; otherwise each response of the session has an error for the old
            # id.
            gone = {
                where: want
                for where, want in self._known.items()
                if where not in wanted or wanted[where].topic_id != want.topic_id
            }
        self._known = dict(wanted)
        topics: dict[Any, Any] = {}
        for where, want in changed.items():
            key = want.topic_id if by_id else where.topic
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = m.FetchRequest_FetchTopic(
                    topic=where.topic, topic_id=want.topic_id, partitions=[]
                )
            topic.partitions.append(
                m.FetchRequest_FetchPartition(
                    partition=where.partition, current_leader_epoch=want.leader_epoch, fetch_offset=want.offset
                )
            )
        forgotten: dict[Any, Any] = {}
        for where, want in gone.items():
            key = want.topic_id if by_id else where.topic
            topic = forgotten.get(key)
            if topic is None:
                topic = forgotten[key] = m.FetchRequest_ForgottenTopic(
                    topic=where.topic, topic_id=want.topic_id, partitions=[]
                )
            topic.partitions.append(where.partition)
        return self._id, self._epoch, list(topics.values()), list(forgotten.values())

    def answered(self, session_id: int) -> None:
        """Advance the session after a response without a session error."""
        if session_id == 0:
            self.reset()
        else:
            self._epoch = 1 if session_id != self._id else (self._epoch % 0x7FFFFFFF) + 1
            self._id = session_id

    def names(self) -> dict[Uuid, str]:
        """Return id → name of the topics in the session."""
        return {want.topic_id: where.topic for where, want in self._known.items()}
