"""IngestCommit (key 32152, pybroker's own), version 0: makes the listed attempts part of the topic, once
(docs/staged-ingest.md)."""

from __future__ import annotations

from pybroker.broker.ingest.ingest_access import IngestAccess, check_name
from pybroker.broker.ingest.ingest_pages import lost_error, wire_state
from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.metadata.ingest_records import COMMITTED
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation
from pybroker.errors import KafkaError
from pybroker.native import ListedAttempt
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    IngestCommitRequest,
    IngestCommitResponse,
    IngestCommitResponse_IngestAttachedPartition,
)

API_KEY = 32152


async def handle(
    ingests: Ingests, access: IngestAccess, context: RequestContext, request: IngestCommitRequest
) -> IngestCommitResponse:
    """Respond when every partition has the records on disk."""
    access.check_cluster(request.cluster_id)
    check_name(request.ingest_id, request.batch_id)
    access.topic(context, request.topic_id, AclOperation.WRITE)
    key = (request.topic_id, request.ingest_id, request.batch_id)
    outcome = await ingests.commit(key, request.epoch, _listed(request), context.caller)
    record, problem = outcome.record, outcome.problem
    own = record.batch_id == request.batch_id and record.state == COMMITTED
    if problem is not None:
        problem = KafkaError(
            problem.code, f"The ingest is committed, but its records are not yet visible: {problem.message}"
        )
    elif own:
        problem = lost_error(record)
    return IngestCommitResponse(
        error_code=0 if problem is None else problem.code,
        error_message=None if problem is None else problem.message,
        state=wire_state(record.state if record.batch_id == request.batch_id else COMMITTED),
        repeated=outcome.repeated,
        partitions=[
            IngestCommitResponse_IngestAttachedPartition(
                partition=index, base_offset=part.base_offset, end_offset=part.end_offset
            )
            for index, part in sorted(record.partitions.items())
            if own
        ],
    )


def _listed(request: IngestCommitRequest) -> list[ListedAttempt]:
    writers = [writer.writer for writer in request.writers]
    if len(set(writers)) < len(writers):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "The request lists a writer twice. List one attempt of each writer."
        )
    listed: dict[tuple[int, int], ListedAttempt] = {}
    for writer in request.writers:
        for part in writer.partitions:
            if (part.partition, writer.writer) in listed:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"The request lists partition {part.partition} of writer {writer.writer} twice.",
                )
            listed[part.partition, writer.writer] = ListedAttempt(
                partition=part.partition,
                writer=writer.writer,
                attempt=writer.attempt,
                rows=part.rows,
                bytes=part.bytes,
                checksum=part.crc,
            )
    return list(listed.values())
