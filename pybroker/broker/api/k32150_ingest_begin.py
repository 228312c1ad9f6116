"""IngestBegin (key 32150, pybroker's own), version 0: opens a staged ingest, or reports that it is committed
(docs/staged-ingest.md)."""

from __future__ import annotations

from pybroker.broker.ingest.ingest_access import IngestAccess, check_name
from pybroker.broker.ingest.ingest_pages import lost_error, wire_state
from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.metadata.ingest_records import OPEN
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    IngestBeginRequest,
    IngestBeginResponse,
    IngestBeginResponse_IngestBeginPartition,
    IngestBeginResponse_IngestCommittedPartition,
)

API_KEY = 32150

APPEND_BYTES_MAX = 16 * 1024 * 1024
"""Size limit of an append in bytes. Larger appends are no faster, and take memory."""
FRAME_BYTES = 64 * 1024
"""Bytes of a request that are reserved for all parts except its records."""


async def handle(
    ingests: Ingests, access: IngestAccess, request_bytes_max: int, context: RequestContext, request: IngestBeginRequest
) -> IngestBeginResponse:
    """Respond when the ingest is in the metadata store and this broker accepts appends."""
    access.check_cluster(request.cluster_id)
    check_name(request.ingest_id, request.batch_id)
    topic = access.topic(context, request.topic_id, AclOperation.WRITE)
    if topic.internal:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic {topic.name} is internal. Its records come only from the broker."
        )
    key = (request.topic_id, request.ingest_id, request.batch_id)
    record = await ingests.begin(key, request.ttl_ms, request.join, context.caller)
    # The stream may have committed a later batch since. The later batch's counts must not be returned for this batch.
    own = record.state != OPEN and record.batch_id == request.batch_id
    problem = lost_error(record) if own else None
    config = record.config
    return IngestBeginResponse(
        error_code=0 if problem is None else problem.code,
        error_message=None if problem is None else problem.message,
        state=wire_state(record.state),
        epoch=record.epoch,
        ttl_ms=record.ttl_ms,
        topic_name=topic.name,
        max_message_bytes=int(config["max.message.bytes"]),
        compression_type="none" if config["compression.type"] == "uncompressed" else config["compression.type"],
        timestamp_type=int(record.append_time),
        keys_required="compact" in config["cleanup.policy"],
        append_max_bytes=max(FRAME_BYTES, min(APPEND_BYTES_MAX, request_bytes_max - FRAME_BYTES)),
        partitions=[
            IngestBeginResponse_IngestBeginPartition(partition=partition.partition_index, leader_id=partition.leader)
            for partition in topic.partitions
        ],
        committed=[
            IngestBeginResponse_IngestCommittedPartition(
                partition=index, base_offset=part.base_offset, end_offset=part.end_offset
            )
            for index, part in sorted(record.partitions.items())
            if own
        ],
    )
