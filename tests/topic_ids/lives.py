"""Topics as a client sees them, by raw requests only; shared by the tests of deletion and undelete."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from pybroker.native import Uuid, build_batch
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.wire.client import ANSWER_S, WireClient

WAIT_S = 120.0
TIMEOUT_MS = 60_000


def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Wait for a condition that the broker brings about."""
    give_up = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)


class Lives:
    """One administrator, producer and consumer. Each call uses a new connection, so a broker may restart."""

    def __init__(self, port: int, answer_s: float = ANSWER_S) -> None:
        """`answer_s`: time limit for a response."""
        self.port = port
        self._answer_s = answer_s

    def call(self, request: Any, version: int) -> Any:
        """Send any request; return the response."""
        with WireClient(self.port, timeout_s=self._answer_s) as client:
            return client.call(request, version)

    # --- topics -------------------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str) -> Uuid:
        """Create a topic and return its id."""
        result = self.try_create(name, partitions, replicas=replicas, **configs)
        assert result.error_code == 0, (result.error_code, result.error_message)
        topic_id: Uuid = result.topic_id
        return topic_id

    def try_create(self, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str) -> Any:
        """Return the response to CreateTopics."""
        settings = [
            m.CreateTopicsRequest_CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        topic = m.CreateTopicsRequest_CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replicas, configs=settings
        )
        return self.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7).topics[0]

    def delete(self, which: str | Uuid) -> Any:
        """Return the response to DeleteTopics 6."""
        topic = (
            m.DeleteTopicsRequest_DeleteTopicState(name=which)
            if isinstance(which, str)
            else m.DeleteTopicsRequest_DeleteTopicState(topic_id=which)
        )
        return self.call(m.DeleteTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 6).responses[0]

    def undelete(self, topic_id: Uuid, new_name: str | None = None) -> Any:
        """Return the response to UndeleteTopics."""
        topic = m.UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id, new_name=new_name)
        return self.call(m.UndeleteTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 0).topics[0]

    def purge(self, topic_id: Uuid, delay_ms: int = 0) -> Any:
        """Return the response to PurgeTopics."""
        topics = [m.PurgeTopicsRequest_PurgeableTopic(topic_id=topic_id)]
        return self.call(m.PurgeTopicsRequest(topics=topics, delay_ms=delay_ms, timeout_ms=TIMEOUT_MS), 0).topics[0]

    def truncate(self, which: str | Uuid, *, keep_offsets: bool = False) -> Any:
        """Return the response to TruncateTopics."""
        topic = m.TruncateTopicsRequest_TruncatableTopic(keep_offsets=keep_offsets)
        if isinstance(which, str):
            topic.name = which
        else:
            topic.topic_id = which
        return self.call(m.TruncateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 0).topics[0]

    def history(self, which: str | Uuid) -> Any:
        """Return the response to DescribeTopicHistory."""
        topic = (
            m.DescribeTopicHistoryRequest_HistoryTopic(name=which)
            if isinstance(which, str)
            else m.DescribeTopicHistoryRequest_HistoryTopic(topic_id=which)
        )
        return self.call(m.DescribeTopicHistoryRequest(topics=[topic]), 0).topics[0]

    def deletions(self, *which: Uuid) -> list[Any]:
        """Return the response to DescribeDeletions for these topics, or for all deletions that are not finished."""
        filters = [m.DescribeDeletionsRequest_DeletionFilter(topic_id=one) for one in which] or None
        found: list[Any] = self.call(m.DescribeDeletionsRequest(topics=filters), 1).deletions
        return found

    def alter_broker_default(self, name: str, value: str) -> None:
        """Set a setting of all brokers."""
        config = m.IncrementalAlterConfigsRequest_AlterableConfig(name=name, config_operation=0, value=value)
        resource = m.IncrementalAlterConfigsRequest_AlterConfigsResource(
            resource_type=4, resource_name="", configs=[config]
        )
        answer = self.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
        assert answer.error_code == 0, answer.error_message

    def metadata(self, name: str) -> Any:
        """Return a topic in Metadata 12."""
        topics = [m.MetadataRequest_MetadataRequestTopic(name=name)]
        return self.call(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12).topics[0]

    def epoch(self, name: str, partition: int = 0) -> int:
        """Return the leader epoch of a partition."""
        epoch: int = self.metadata(name).partitions[partition].leader_epoch
        return epoch

    # --- records ------------------------------------------------------------------------------------------------------

    def produce(self, which: str | Uuid, *values: str, partition: int = 0) -> Any:
        """Append a batch with acks=all; return the partition's row of the response."""
        records = build_batch([(None, value.encode()) for value in values], int(time.time() * 1000))
        data = m.ProduceRequest_TopicProduceData(
            partition_data=[m.ProduceRequest_PartitionProduceData(index=partition, records=records)]
        )
        version = 9
        if isinstance(which, str):
            data.name = which
        else:
            data.topic_id, version = which, 13
        request = m.ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        return self.call(request, version).responses[0].partition_responses[0]

    def fetch(self, which: str | Uuid, offset: int = 0, partition: int = 0, epoch: int = -1) -> Any:
        """Return a partition's row of a Fetch response: 12 by name, 13 by id."""
        wanted = m.FetchRequest_FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
        )
        topic = m.FetchRequest_FetchTopic(partitions=[wanted])
        version = 12
        if isinstance(which, str):
            topic.topic = which
        else:
            topic.topic_id, version = which, 13
        return self.call(m.FetchRequest(topics=[topic], max_wait_ms=0), version).responses[0].partitions[0]

    def read(self, which: str | Uuid, offset: int = 0, partition: int = 0) -> list[str]:
        """Return all values from an offset on."""
        values: list[str] = []
        while True:
            answer = self.fetch(which, offset, partition)
            assert answer.error_code == 0, answer.error_code
            found = values_of(answer.records or b"")
            if not found:
                return values
            values += [value for _, value in found]
            offset = found[-1][0] + 1

    def ends(self, name: str, partition: int = 0) -> tuple[int, int]:
        """Return log start and end by ListOffsets. A new leader may not know the end yet: retry as clients do."""
        found: list[int] = []
        for timestamp in (-2, -1):
            wanted = m.ListOffsetsRequest_ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            topic = m.ListOffsetsRequest_ListOffsetsTopic(name=name, partitions=[wanted])
            request = m.ListOffsetsRequest(replica_id=-1, topics=[topic])

            def listed(request: Any = request) -> bool:
                row = self.call(request, 7).topics[0].partitions[0]
                if row.error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
                    return False
                assert row.error_code == 0
                found.append(row.offset)
                return True

            until(listed, "an end that the leader knows")
        start, end = found
        return start, end

    def delete_records(self, name: str, offset: int, partition: int = 0) -> None:
        """Raise the log start offset."""
        wanted = m.DeleteRecordsRequest_DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = m.DeleteRecordsRequest_DeleteRecordsTopic(name=name, partitions=[wanted])
        answer = self.call(m.DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 2)
        assert answer.topics[0].partitions[0].error_code == 0

    # --- groups -------------------------------------------------------------------------------------------------------

    def coordinator(self, group: str) -> None:
        """Wait until the group's coordinator answers."""

        def ready() -> bool:
            found = self.call(m.FindCoordinatorRequest(key=group, key_type=0), 3)
            if found.error_code:
                return False
            return self.committed(group, "none") != "loading"

        until(ready, "a coordinator")

    def commit(self, group: str, name: str, offset: int, epoch: int = -1, partition: int = 0) -> int:
        """Commit by name without a generation; return the error code."""
        wanted = m.OffsetCommitRequest_OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=epoch
        )
        topic = m.OffsetCommitRequest_OffsetCommitRequestTopic(name=name, partitions=[wanted])
        answer = self.call(m.OffsetCommitRequest(group_id=group, topics=[topic]), 8)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def committed(self, group: str, name: str, partition: int = 0) -> int | str:
        """Return the committed offset, -1 if there is none, "loading" while the coordinator loads."""
        topic = m.OffsetFetchRequest_OffsetFetchRequestTopics(name=name, partition_indexes=[partition])
        asked = m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=[topic])
        answer = self.call(m.OffsetFetchRequest(groups=[asked]), 8).groups[0]
        if answer.error_code:
            return "loading"
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


def values_of(records: bytes) -> list[tuple[int, str]]:
    """Return (offset, value) of uncompressed batches without keys and headers, as `produce` writes them."""
    found: list[tuple[int, str]] = []
    at = 0
    while len(records) - at >= 61:
        base, length = struct.unpack_from(">qi", records, at)
        (count,) = struct.unpack_from(">i", records, at + 57)
        end = at + 12 + length
        if end > len(records):
            break
        position = at + 61
        for index in range(count):
            _, position = _varint(records, position)  # length
            position += 1  # attributes
            _, position = _varint(records, position)  # timestamp delta
            _, position = _varint(records, position)  # offset delta
            key, position = _varint(records, position)
            assert key == -1
            size, position = _varint(records, position)
            found.append((base + index, records[position : position + size].decode()))
            position += size
            _, position = _varint(records, position)  # headers
        at = end
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at


def ids(answers: Sequence[Any]) -> list[Uuid]:
    """Return the topic ids in a list of responses."""
    return [answer.topic_id for answer in answers]
