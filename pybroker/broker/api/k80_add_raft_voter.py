"""AddRaftVoter (key 80), versions 0–1: turns an observer of the metadata log into a voter (KIP-853).

Behavior
- Any broker answers; the leader decides. It needs ALTER on the cluster.
- The leader waits up to the timeout for the observer to catch up; then the answer is REQUEST_TIMED_OUT.
- Only the address on the inter-broker listener counts.

Versions
- v1 may ask for an answer before the change is committed.
"""

from __future__ import annotations

from pybroker.broker.admin.quorum import VoterAdmin
from pybroker.broker.cluster.quorum_events import QuorumAddress
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import AddRaftVoterRequest, AddRaftVoterResponse

API_KEY = 80


async def handle(
    quorum: VoterAdmin, authorizer: Authorizer, context: RequestContext, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Respond when a majority of the new voters has the change, or as soon as the leader has appended it."""
    try:
        authorizer.require_cluster(context, AclOperation.ALTER)
        await quorum.add(
            request.cluster_id,
            (request.voter_id, request.voter_directory_id),
            [
                QuorumAddress(listener.name.upper(), listener.host, listener.port) for listener in request.listeners
            ],
            request.timeout_ms,
            context.caller,
            when_committed=context.api_version < 1 or request.ack_when_committed,
        )
    except KafkaError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
    return AddRaftVoterResponse(error_message=None)
