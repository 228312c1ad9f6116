"""AdminClient's calls about records: offsets by time, deletion up to an offset."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.client_errors import broker_error, is_retriable
from pybroker.client.cluster_metadata import Partition, by_topic_and_id, partition_of, topic_id_of
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.offset_requests import list_offsets_request, listed_offsets
from pybroker.client.offset_types import OffsetAndTimestamp, OffsetSpec
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

_MAX_TIMESTAMP_VERSION = 7


class RecordsAdmin(AdminBase):
    """Calls about offsets and records of partitions."""

    def list_offsets(
        self, partitions: Mapping[Partition, OffsetSpec], *, read_committed: bool = False
    ) -> KeyedResult[Partition, OffsetAndTimestamp]:
        """Look up offsets: partition → offset and timestamp, or -1 if no record is at or after the time. Partitions are
        named by topic name or topic id.
        """

        async def work(futures: Futures[Partition, OffsetAndTimestamp]) -> None:
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
        requested: Mapping[Partition, OffsetSpec],
        read_committed: bool,
        futures: Futures[Partition, OffsetAndTimestamp],
    ) -> None:
        request = list_offsets_request(
            requested, {}, read_committed=read_committed, timeout_ms=self._config["request.timeout.ms"]
        )
        connection = await self._network.connection(leader)
        self._require_topic_ids(connection, map(topic_id_of, requested))
        if any(spec.timestamp < -2 for spec in requested.values()):
            self._at_least(connection, m.ListOffsetsRequest, _MAX_TIMESTAMP_VERSION, "look for the largest timestamp")
        for where, code, found in listed_offsets(await connection.request(request)):
            if not _comes_later(code):
                settle(futures[where], code, None, found, str(where))

    def delete_records(
        self, offsets: Mapping[Partition, int], *, timeout_s: float | None = None
    ) -> KeyedResult[Partition, int]:
        """Delete the records before an offset (-1: before the high watermark).

        The result has partition → new log start offset; partitions are named as in the request.
        """
        before: Mapping[Any, int] = offsets

        async def work(futures: Futures[Any, int]) -> None:
            async def one_round(_: BrokerConnection) -> None:
                left = [each for each in futures if not futures[each].done()]
                for leader, those in (await self._leaders(left)).items():
                    request = m.DeleteRecordsRequest(
                        topics=[
                            m.DeleteRecordsRequest_DeleteRecordsTopic(
                                name=name,
                                topic_id=topic_id,
                                partitions=[
                                    m.DeleteRecordsRequest_DeleteRecordsPartition(
                                        partition_index=index, offset=before[partition_of(name, topic_id, index)]
                                    )
                                    for index in indexes
                                ],
                            )
                            for (name, topic_id), indexes in by_topic_and_id(those).items()
                        ],
                        timeout_ms=self._timeout_ms(timeout_s),
                    )
                    connection = await self._network.connection(leader)
                    self._require_topic_ids(connection, map(topic_id_of, those))
                    for topic in (await connection.request(request)).topics:
                        for row in topic.partitions:
                            key = partition_of(topic.name, topic.topic_id, row.partition_index)
                            if not _comes_later(row.error_code):
                                settle(futures[key], row.error_code, None, row.low_watermark, str(key))
                _again_unless_done(futures)

            await self._network.attempt("any", one_round, about="deletion of records")

        return KeyedResult(start(offsets, work))


def _comes_later(code: int) -> bool:
    """Return whether to retry. Consumers refresh their metadata and retry after UNKNOWN_TOPIC_ID, but here this error
    is final: the topic id is deleted.
    """
    return is_retriable(code) and code not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


def _again_unless_done(futures: Mapping[Partition, asyncio.Future[Any]]) -> None:
    left = [str(each) for each, future in futures.items() if not future.done()]
    if left:
        raise broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"no leader responds for {', '.join(left)}")
