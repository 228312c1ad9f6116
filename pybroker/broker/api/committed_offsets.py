"""Code that OffsetCommit (8) and TxnOffsetCommit (28) share: authorization, and the mapping of results to partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pybroker.broker.coordinators.group_base.requests import CommitItem
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.protocol.error_codes import ErrorCode


class CommittedTopics:
    """The topics of one request, and whether the client may read each of them. `by_id`: this version names topics by
    id.
    """

    def __init__(
        self, topics: Topics, authorizer: Authorizer, context: RequestContext, rows: Sequence[Any], *, by_id: bool
    ) -> None:
        self._topics = topics
        self._rows = rows
        self._by_id = by_id
        self._denied = []
        for row in rows:
            # An unknown id needs no authorization: every client gets UNKNOWN_TOPIC_ID for it.
            name = topics.topic_name(row.topic_id) if by_id else row.name
            self._denied.append(name is not None and not authorizer.permits_topic(context, AclOperation.READ, name))

    @property
    def is_whole(self) -> bool:
        """Return whether the client may read all topics of the request."""
        return not any(self._denied)

    def permitted(self) -> Iterator[CommitItem]:
        """Yield each partition that the client may commit. Only OffsetCommit has timestamps."""
        for row, denied in zip(self._rows, self._denied, strict=True):
            for partition in () if denied else row.partitions:
                yield CommitItem(
                    None if self._by_id else row.name,
                    row.topic_id if self._by_id else None,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    getattr(partition, "commit_timestamp", -1),
                )

    def refused(self, code: ErrorCode) -> list[ErrorCode]:
        """Return a code for each item of `permitted` after the group has refused the request with `code`. A topic or
        partition that does not exist gets its own error code instead: as in Kafka, the broker checks existence before
        it asks the coordinator.
        """
        codes = []
        for row, denied in zip(self._rows, self._denied, strict=True):
            topic_id = row.topic_id if self._by_id else self._topics.topic_id(row.name)
            count = 0 if topic_id is None else self._topics.partition_count(topic_id)
            no_id = self._by_id and not count
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if no_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for partition in () if denied else row.partitions:
                codes.append(code if 0 <= partition.partition_index < count else unknown)
        return codes

    def all_with(self, code: ErrorCode) -> Iterator[tuple[Any, list[tuple[int, ErrorCode]]]]:
        """Yield each topic of the request with its partition numbers, all with the same code, because the client may
        not use the group or the transactional id.
        """
        for row in self._rows:
            yield row, [(partition.partition_index, code) for partition in row.partitions]

    def answers(self, codes: Sequence[ErrorCode]) -> Iterator[tuple[Any, list[tuple[int, ErrorCode]]]]:
        """Yield each topic of the request with its partition numbers and their codes. `codes` has one code for each
        item of `permitted`, in the same order.
        """
        remaining = iter(codes)
        for row, denied in zip(self._rows, self._denied, strict=True):
            yield (
                row,
                [
                    (partition.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED if denied else next(remaining))
                    for partition in row.partitions
                ],
            )
