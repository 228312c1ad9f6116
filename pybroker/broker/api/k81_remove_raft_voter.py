"""RemoveRaftVoter (key 81), version 0: turns a voter of the metadata log into an observer (KIP-853).

Behavior
- Any broker answers; the leader decides. It needs ALTER on the cluster.
- A removed voter keeps running as a broker, and does not offer itself as a voter again.

Differs from Kafka
- The only voter cannot be removed: INVALID_REQUEST.
"""

from __future__ import annotations

from pybroker.broker.admin.quorum import VoterAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import RemoveRaftVoterRequest, RemoveRaftVoterResponse

API_KEY = 81


async def handle(
    quorum: VoterAdmin, authorizer: Authorizer, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Respond when a majority of the remaining voters has the change."""
    try:
        authorizer.require_cluster(context, AclOperation.ALTER)
        await quorum.remove(request.cluster_id, (request.voter_id, request.voter_directory_id), context.caller)
    except KafkaError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)
    return RemoveRaftVoterResponse(error_message=None)
