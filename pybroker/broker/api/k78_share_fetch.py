"""ShareFetch (key 78), versions 1–2: a member of a share group acknowledges records and acquires more (KIP-932).

Behavior
- The response has whole batches as the log stores them; the member reads only the records that it acquired.
- Acknowledgements are on disk before the response leaves.

Versions
- v2 adds requests that only renew locks (KIP-1222) and a strict record limit (KIP-1206).
"""

from __future__ import annotations

from pybroker.broker.api.share_records import (
    ShareSources,
    acknowledgements,
    admitted,
    by_topic,
    endpoints,
    leader_of,
    reader,
)
from pybroker.broker.coordinators.share_partition.requests import Answers, Limits, ShareRequest
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponse_AcquiredRecords,
    ShareFetchResponse_LeaderIdAndEpoch,
    ShareFetchResponse_NodeEndpoint,
    ShareFetchResponse_PartitionData,
    ShareFetchResponse_ShareFetchableTopicResponse,
)

API_KEY = 78

RECORD_LIMIT = 1
"""share_acquire_mode: the response never has more than max_records."""


async def handle(
    sources: ShareSources, authorizer: Authorizer, context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse:
    """Return records. If there are none, wait as long as the client allows."""
    try:
        group_id, member_id = admitted(sources, authorizer, context, request)
        renews = request.is_renew_ack
        if renews and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A request that renews acquisition locks must not request records."
            )
        asked = ShareRequest(
            group_id,
            member_id,
            request.share_session_epoch,
            context.connection_id,
            acknowledgements(request.topics, renews=renews),
            [(topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions],
            [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions],
            renews,
        )
        limits = Limits(
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.max_records,
            request.batch_size,
            request.share_acquire_mode == RECORD_LIMIT,
        )
        answers = await sources.partitions.fetch(asked, limits, reader(authorizer, context))
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    return _response(sources, context, group_id, answers)


def _response(sources: ShareSources, context: RequestContext, group_id: str, answers: Answers) -> ShareFetchResponse:
    leaders: list[int] = []
    topics = []
    for topic_id, indexes in by_topic(answers).items():
        partitions = []
        for index in indexes:
            answer = answers[topic_id, index]
            error, acknowledged = answer.error, answer.acknowledge_error
            data = ShareFetchResponse_PartitionData(
                partition_index=index,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
                acknowledge_error_code=0 if acknowledged is None else acknowledged.code,
                acknowledge_error_message=None if acknowledged is None else acknowledged.message,
                records=answer.records or b"",  # type: ignore[arg-type]  # native bytes, which the codec copies
                acquired_records=[ShareFetchResponse_AcquiredRecords(*row) for row in answer.acquired],
            )
            leader = leader_of(sources, (topic_id, index), error or acknowledged, ShareFetchResponse_LeaderIdAndEpoch)
            if leader is not None:
                data.current_leader = leader
                leaders.append(leader.leader_id)
            partitions.append(data)
        topics.append(ShareFetchResponse_ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions))
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=sources.settings.lock_duration_ms(group_id),
        responses=topics,
        node_endpoints=endpoints(sources, context, leaders, ShareFetchResponse_NodeEndpoint),
    )
