"""A small client of staged ingest: batches, their checksums, and the five requests, over one raw connection."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from pybroker import native
from pybroker.native import Uuid
from pybroker.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequest_CreatableTopic,
    CreateTopicsRequest_CreatableTopicConfig,
    DescribeClusterRequest,
    FetchRequest,
    FetchRequest_FetchPartition,
    FetchRequest_FetchTopic,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequest_AlterableConfig,
    IncrementalAlterConfigsRequest_AlterConfigsResource,
    IngestAbortRequest,
    IngestAppendRequest,
    IngestAppendRequest_IngestAppendPartition,
    IngestBeginRequest,
    IngestCommitRequest,
    IngestCommitRequest_IngestWriter,
    IngestCommitRequest_IngestWriterPartition,
    ListIngestsRequest,
    ProduceRequest,
    ProduceRequest_PartitionProduceData,
    ProduceRequest_TopicProduceData,
)
from tests.wire.client import WireClient

OPEN, COMMITTING, COMMITTED, ABSENT = range(4)
CRC_AT = 17
ATTRIBUTES_AT = 21
RECORDS_AT = 61
GZIP = 1
APPEND_TIME = 8
"""Bits of a batch's attributes."""
TOPIC, BROKER = 2, 4
"""Types of config resources."""


def batch(values: Iterable[str], key: bytes | None = b"k") -> bytes:
    """Return a batch as a client makes it: base offset 0, no producer id."""
    return native.build_batch([(key, value.encode()) for value in values], int(time.time() * 1000))


def zipped(data: bytes) -> bytes:
    """Return the batch with its records compressed by gzip."""
    body = struct.pack(">h", GZIP) + data[ATTRIBUTES_AT + 2 : RECORDS_AT] + gzip.compress(data[RECORDS_AT:])
    length = struct.pack(">i", ATTRIBUTES_AT - 12 + len(body))
    return data[:8] + length + data[12:CRC_AT] + struct.pack(">I", native.crc32c(body)) + body


class FetchRefusedError(AssertionError):
    """The response to a fetch has an error for a partition."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


class Attempt:
    """The parts that one attempt of a writer stages, and that a commit lists."""

    def __init__(self, writer: int, attempt: int = 0) -> None:
        self.writer = writer
        self.attempt = attempt
        self.rows: dict[int, int] = {}
        self.bytes: dict[int, int] = {}
        self.crcs: dict[int, bytes] = {}

    def add(self, partition: int, data: bytes, rows: int) -> None:
        """Record a batch that was staged."""
        self.rows[partition] = self.rows.get(partition, 0) + rows
        self.bytes[partition] = self.bytes.get(partition, 0) + len(data)
        self.crcs[partition] = self.crcs.get(partition, b"") + data[CRC_AT : CRC_AT + 4]

    def listed(self) -> IngestCommitRequest_IngestWriter:
        return IngestCommitRequest_IngestWriter(
            writer=self.writer,
            attempt=self.attempt,
            partitions=[
                IngestCommitRequest_IngestWriterPartition(
                    partition=partition,
                    rows=rows,
                    bytes=self.bytes[partition],
                    crc=native.crc32c(self.crcs[partition]),
                )
                for partition, rows in self.rows.items()
            ],
        )


def append_request(
    topic_id: Uuid,
    ingest_id: str,
    epoch: int,
    attempt: Attempt,
    parts: Iterable[tuple[int, int, bytes | None]],
    *,
    batch_id: int = -1,
) -> IngestAppendRequest:
    """Return an append request with (partition, sequence, records) unchanged."""
    return IngestAppendRequest(
        topic_id=topic_id,
        ingest_id=ingest_id,
        batch_id=batch_id,
        epoch=epoch,
        writer=attempt.writer,
        attempt=attempt.attempt,
        partitions=[
            IngestAppendRequest_IngestAppendPartition(partition=partition, sequence=sequence, records=records)
            for partition, sequence, records in parts
        ],
    )


def produce_request(topic_id: Uuid, data: bytes) -> ProduceRequest:
    """Return a request with one batch for partition 0, acks=all, version 13."""
    part = ProduceRequest_PartitionProduceData(index=0, records=data)
    topic = ProduceRequest_TopicProduceData(topic_id=topic_id, partition_data=[part])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


class IngestClient:
    """One connection to a broker."""

    def __init__(self, port: int) -> None:
        self._wire = WireClient(port)
        self.cluster_id: str = self._wire.call(DescribeClusterRequest(), 0).cluster_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._wire.close()

    def call(self, request: Any, version: int = 0) -> Any:
        return self._wire.call(request, version)

    def send(self, request: Any, version: int = 0) -> None:
        self._wire.send(request, version)

    def receive(self) -> Any:
        return self._wire.receive()

    def create(self, name: str, partitions: int = 3, config: Mapping[str, str] | None = None) -> Uuid:
        topic = CreateTopicsRequest_CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest_CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()
            ],
        )
        [answer] = self.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
        assert answer.error_code == 0, answer
        topic_id: Uuid = answer.topic_id
        return topic_id

    def alter(self, name: str, config: Mapping[str, str], kind: int = TOPIC) -> None:
        """Set configs of a topic, or the cluster's (BROKER and no name); they are in effect on return."""
        wanted = IncrementalAlterConfigsRequest_AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                IncrementalAlterConfigsRequest_AlterableConfig(name=key, config_operation=0, value=value)
                for key, value in config.items()
            ],
        )
        [answer] = self.call(IncrementalAlterConfigsRequest(resources=[wanted]), 1).responses
        assert answer.error_code == 0, answer

    def begin(
        self,
        topic_id: Uuid,
        ingest_id: str,
        *,
        batch_id: int = -1,
        ttl_ms: int = -1,
        join: bool = False,
        cluster_id: str | None = None,
    ) -> Any:
        return self.call(
            IngestBeginRequest(
                cluster_id=self.cluster_id if cluster_id is None else cluster_id,
                topic_id=topic_id,
                ingest_id=ingest_id,
                batch_id=batch_id,
                ttl_ms=ttl_ms,
                join=join,
            )
        )

    def append_raw(
        self,
        topic_id: Uuid,
        ingest_id: str,
        epoch: int,
        attempt: Attempt,
        parts: Iterable[tuple[int, int, bytes | None]],
        *,
        batch_id: int = -1,
    ) -> Any:
        """Append (partition, sequence, records) unchanged."""
        return self.call(append_request(topic_id, ingest_id, epoch, attempt, parts, batch_id=batch_id))

    def append(  # noqa: PLR0917 - as the request has them
        self,
        topic_id: Uuid,
        ingest_id: str,
        epoch: int,
        attempt: Attempt,
        partition: int,
        values: list[str],
        *,
        batch_id: int = -1,
    ) -> None:
        """Stage one batch and record it."""
        data = batch(values)
        sequence = attempt.rows.get(partition, 0)
        answer = self.append_raw(topic_id, ingest_id, epoch, attempt, [(partition, sequence, data)], batch_id=batch_id)
        assert answer.error_code == 0, answer
        [part] = answer.partitions
        assert part.error_code == 0, part
        attempt.add(partition, data, len(values))
        assert part.next_sequence == attempt.rows[partition]

    def commit(
        self,
        topic_id: Uuid,
        ingest_id: str,
        epoch: int,
        attempts: Iterable[Attempt],
        *,
        batch_id: int = -1,
        cluster_id: str | None = None,
    ) -> Any:
        return self.call(
            self.commit_request(topic_id, ingest_id, epoch, attempts, batch_id=batch_id, cluster_id=cluster_id)
        )

    def commit_request(
        self,
        topic_id: Uuid,
        ingest_id: str,
        epoch: int,
        attempts: Iterable[Attempt],
        *,
        batch_id: int = -1,
        cluster_id: str | None = None,
    ) -> IngestCommitRequest:
        return IngestCommitRequest(
            cluster_id=self.cluster_id if cluster_id is None else cluster_id,
            topic_id=topic_id,
            ingest_id=ingest_id,
            batch_id=batch_id,
            epoch=epoch,
            writers=[attempt.listed() for attempt in attempts],
        )

    def abort(self, topic_id: Uuid, ingest_id: str, epoch: int = -1, *, batch_id: int = -1) -> Any:
        return self.call(
            IngestAbortRequest(
                cluster_id=self.cluster_id, topic_id=topic_id, ingest_id=ingest_id, batch_id=batch_id, epoch=epoch
            )
        )

    def listing(self, *, committed: bool = False, ingest_id: str | None = None) -> Any:
        answer = self.call(ListIngestsRequest(topic_ids=None, ingest_id=ingest_id, include_committed=committed))
        assert answer.error_code == 0
        return answer.ingests

    def produce(self, topic_id: Uuid, values: Iterable[str]) -> None:
        """Write one batch to partition 0, as other producers do."""
        answer = self.call(produce_request(topic_id, batch(values)), 13)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def read(self, topic_id: Uuid, partition: int) -> list[tuple[int, str]]:
        """Return offset and value of all records that a consumer sees. Check that offsets have no gaps and that
        checksums are right."""
        records: list[tuple[int, str]] = []
        while True:
            part = self._fetch(topic_id, partition, len(records))
            if len(records) >= part.high_watermark:
                return records
            for found in _records(part.records, len(records)):
                assert found[0] == len(records), f"offset {found[0]} where {len(records)} was expected"
                records.append(found)

    def headers(self, topic_id: Uuid, partition: int) -> list[tuple[int, int]]:
        """Return attributes and largest timestamp of each batch that a consumer sees, if one fetch returns them all."""
        part = self._fetch(topic_id, partition, 0)
        found = []
        position = end = 0
        while position < len(part.records):
            base, length, attributes, delta, _, largest = struct.unpack_from(">qi9xhiqq", part.records, position)
            found.append((attributes, largest))
            end = base + delta + 1
            position += 12 + length
        assert end == part.high_watermark
        return found

    def _fetch(self, topic_id: Uuid, partition: int, offset: int) -> Any:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=50 << 20,
            topics=[
                FetchRequest_FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchRequest_FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=4 << 20
                        )
                    ],
                )
            ],
        )
        answer = self.call(request, 13)
        assert answer.error_code == 0, answer
        part = answer.responses[0].partitions[0]
        if part.error_code:
            raise FetchRefusedError(part.error_code)
        return part


def _records(data: bytes, offset: int) -> list[tuple[int, str]]:
    found = []
    position = 0
    while position + RECORDS_AT <= len(data):
        base, length = struct.unpack_from(">qi", data, position)
        end = position + 12 + length
        if end > len(data):
            break
        (crc,) = struct.unpack_from(">I", data, position + CRC_AT)
        assert native.crc32c(data[position + ATTRIBUTES_AT : end]) == crc
        (count,) = struct.unpack_from(">i", data, position + 57)
        at = position + RECORDS_AT
        for index in range(count):
            size, at = _varint(data, at)
            if base + index >= offset:
                found.append((base + index, _value(data, at)))
            at += size
        position = end
    return found


def _value(data: bytes, at: int) -> str:
    at += 1
    _, at = _varint(data, at)
    _, at = _varint(data, at)
    key, at = _varint(data, at)
    at += max(key, 0)
    value, at = _varint(data, at)
    return data[at : at + value].decode()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = result = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
