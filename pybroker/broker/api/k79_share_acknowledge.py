"""ShareAcknowledge (key 79), versions 1–2: a member of a share group acknowledges records (KIP-932).

Behavior
- Acknowledgements are on disk before the response leaves.

Versions
- v2 renews locks (KIP-1222).
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
from pybroker.broker.coordinators.share_partition.requests import Answers, ShareRequest
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponse_LeaderIdAndEpoch,
    ShareAcknowledgeResponse_NodeEndpoint,
    ShareAcknowledgeResponse_PartitionData,
    ShareAcknowledgeResponse_ShareAcknowledgeTopicResponse,
)

API_KEY = 79


async def handle(
    sources: ShareSources, authorizer: Authorizer, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Respond when the acknowledgements are on disk."""
    try:
        group_id, member_id = admitted(sources, authorizer, context, request)
        asked = ShareRequest(
            group_id,
            member_id,
            request.share_session_epoch,
            context.connection_id,
            acknowledgements(request.topics, renews=request.is_renew_ack),
            renews=request.is_renew_ack,
        )
        answers = await sources.partitions.acknowledge(asked, reader(authorizer, context))
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    return _response(sources, context, group_id, answers)


def _response(
    sources: ShareSources, context: RequestContext, group_id: str, answers: Answers
) -> ShareAcknowledgeResponse:
    leaders: list[int] = []
    topics = []
    for topic_id, indexes in by_topic(answers).items():
        partitions = []
        for index in indexes:
            error = answers[topic_id, index].acknowledge_error
            data = ShareAcknowledgeResponse_PartitionData(
                partition_index=index,
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            leader = leader_of(sources, (topic_id, index), error, ShareAcknowledgeResponse_LeaderIdAndEpoch)
            if leader is not None:
                data.current_leader = leader
                leaders.append(leader.leader_id)
            partitions.append(data)
        topics.append(ShareAcknowledgeResponse_ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions))
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=sources.settings.lock_duration_ms(group_id),
        responses=topics,
        node_endpoints=endpoints(sources, context, leaders, ShareAcknowledgeResponse_NodeEndpoint),
    )
