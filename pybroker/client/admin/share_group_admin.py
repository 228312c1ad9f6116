"""AdminClient's calls about the offsets of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.client_errors import broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicPartition, by_topic
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.protocol import messages as m


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """The progress of a share group in a partition."""

    start_offset: int
    """Share-partition start offset: all records before it are complete."""
    lag: int | None
    """Number of records that are not complete; None if the broker does not report it."""


class ShareGroupsAdmin(AdminBase):
    """Calls about offsets of share groups. `GroupsAdmin` lists, describes and deletes these groups."""

    async def list_share_group_offsets(self, group_id: str) -> dict[TopicPartition, SharePartitionOffset]:
        """Return the group's offsets in all partitions that it reads or has read."""
        requested = m.DescribeShareGroupOffsetsRequest_DescribeShareGroupOffsetsRequestGroup(group_id, None)
        request = m.DescribeShareGroupOffsetsRequest([requested])
        answer = await self._ask_share(group_id, request, lambda all_groups: all_groups.groups[0])
        found = {}
        for topic in answer.groups[0].topics:
            for row in topic.partitions:
                where = TopicPartition(topic.topic_name, row.partition_index)
                if row.error_code:
                    raise broker_error(row.error_code, row.error_message, about=f"group {group_id}, {where}")
                if row.start_offset >= 0:
                    found[where] = SharePartitionOffset(row.start_offset, row.lag if row.lag >= 0 else None)
        return found

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> KeyedResult[TopicPartition, None]:
        """Set the start offsets of a share group that has no members."""
        request = m.AlterShareGroupOffsetsRequest(
            group_id,
            [
                m.AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestTopic(
                    name,
                    [
                        m.AlterShareGroupOffsetsRequest_AlterShareGroupOffsetsRequestPartition(
                            index, offsets[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(offsets).items()
            ],
        )

        async def work(futures: Futures[TopicPartition, None]) -> None:
            for topic in (await self._ask_share(group_id, request, lambda answer: answer)).responses:
                for row in topic.partitions:
                    where = TopicPartition(topic.topic_name, row.partition_index)
                    settle(futures[where], row.error_code, row.error_message, None, str(where))

        return KeyedResult(start(offsets, work))

    def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> KeyedResult[str, None]:
        """Delete the offsets of a share group without members in these topics. The group then starts there as if it had
        never read them.
        """
        names = list(topics)
        make = m.DeleteShareGroupOffsetsRequest_DeleteShareGroupOffsetsRequestTopic
        request = m.DeleteShareGroupOffsetsRequest(group_id, [make(name) for name in names])

        async def work(futures: Futures[str, None]) -> None:
            for row in (await self._ask_share(group_id, request, lambda answer: answer)).responses:
                settle(futures[row.topic_name], row.error_code, row.error_message, None, f"topic {row.topic_name}")

        return KeyedResult(start(names, work))

    async def _ask_share(self, group_id: str, request: Any, whole: Any) -> Any:
        """Return the coordinator's response. Retry retriable errors. whole: function that returns the part of a
        response with the group's error.
        """

        async def ask(connection: BrokerConnection) -> Any:
            answer = await connection.request(request)
            top = whole(answer)
            rows = [row for topic in getattr(top, "responses", ()) for row in getattr(topic, "partitions", (topic,))]
            for each in (top, *rows):
                if each.error_code and (each is top or is_retriable(each.error_code)):
                    raise broker_error(each.error_code, each.error_message, about=f"group {group_id}")
            return answer

        return await self._coordinator(group_id, ask)
