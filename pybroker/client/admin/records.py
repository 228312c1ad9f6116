"""AdminClient's calls about records: offsets by time, deletion up to an offset."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pybroker.client.admin.base import AdminBase
from pybroker.client.admin.results import Futures, KeyedResult, settle, start
from pybroker.client.cluster import TopicPartition, by_topic
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.offset_requests import list_offsets_request, listed_offsets
from pybroker.client.errors import broker_error, is_retriable
from pybroker.client.offsets import OffsetAndTimestamp, OffsetSpec
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

_MAX_TIMESTAMP_VERSION = 7


class RecordsAdmin(AdminBase):
    """Offsets and records of partitions."""

    def list_offsets(
        self, partitions: Mapping[TopicPartition, OffsetSpec], *, read_committed: bool = False
    ) -> KeyedResult[TopicPartition, OffsetAndTimestamp]:
        """Partition → the offset found; -1 if there is no record of that time or later."""

        async def work(futures: Futures[TopicPartition, OffsetAndTimestamp]) -> None:
            async def one_round(_: BrokerConnection) -> None:
                left = [each for each in futures if not futures[each].done()]
                for leader, those in (await self._leaders(left)).items():
                    await self._list_offsets(
                        leader, {each: partitions[each] for each in those}, read_committed, futures
                    )
                _again_unless_done(futures)

            await self._network.attempt("any", one_round, about="offsets")

        return KeyedResult(start(partitions, work))

    async def _list_offsets(
        self,
        leader: int,
        wanted: Mapping[TopicPartition, OffsetSpec],
        read_committed: bool,
        futures: Futures[TopicPartition, OffsetAndTimestamp],
    ) -> None:
        request = list_offsets_request(
            wanted, {}, read_committed=read_committed, timeout_ms=self._config["request.timeout.ms"]
        )
        connection = await self._network.connection(leader)
        if any(spec.timestamp < -2 for spec in wanted.values()):
            self._at_least(connection, m.ListOffsetsRequest, _MAX_TIMESTAMP_VERSION, "look for the largest timestamp")
        for where, code, found in listed_offsets(await connection.request(request)):
            if not is_retriable(code):
                settle(futures[where], code, None, found, str(where))

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> KeyedResult[TopicPartition, int]:
        """Deletes the records before an offset (-1: before the high watermark). Partition → first offset left."""

        async def work(futures: Futures[TopicPartition, int]) -> None:
            async def one_round(_: BrokerConnection) -> None:
                left = [each for each in futures if not futures[each].done()]
                for leader, those in (await self._leaders(left)).items():
                    request = m.DeleteRecordsRequest(
                        topics=[
                            m.DeleteRecordsRequest_DeleteRecordsTopic(
                                name=name,
                                partitions=[
                                    m.DeleteRecordsRequest_DeleteRecordsPartition(
                                        partition_index=index, offset=offsets[TopicPartition(name, index)]
                                    )
                                    for index in indexes
                                ],
                            )
                            for name, indexes in by_topic(those).items()
                        ],
                        timeout_ms=self._timeout_ms(timeout_s),
                    )
                    for topic in (await (await self._network.connection(leader)).request(request)).topics:
                        for row in topic.partitions:
                            key = TopicPartition(topic.name, row.partition_index)
                            if not is_retriable(row.error_code):
                                settle(futures[key], row.error_code, None, row.low_watermark, str(key))
                _again_unless_done(futures)

            await self._network.attempt("any", one_round, about="deletion of records")

        return KeyedResult(start(offsets, work))


def _again_unless_done(futures: Mapping[TopicPartition, asyncio.Future[Any]]) -> None:
    left = [str(each) for each, future in futures.items() if not future.done()]
    if left:
        raise broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"no leader answers for {', '.join(left)}")
