"""TransferQuorumLeader (key 32155, pybroker's own), version 0: the leader of the metadata log resigns in favour of
another voter.

Behavior
- Any broker answers; the leader resigns. It needs ALTER on the cluster.
- Successor -1: the leader prefers the voter with the longest log.
"""

from __future__ import annotations

from pybroker.broker.admin.quorum import VoterAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import TransferQuorumLeaderRequest, TransferQuorumLeaderResponse

API_KEY = 32155


async def handle(
    quorum: VoterAdmin, authorizer: Authorizer, context: RequestContext, request: TransferQuorumLeaderRequest
) -> TransferQuorumLeaderResponse:
    """Respond when another voter leads."""
    successor = request.successor_id if request.successor_id >= 0 else None
    try:
        authorizer.require_cluster(context, AclOperation.ALTER)
        await quorum.transfer(successor, request.timeout_ms, context.caller)
    except KafkaError as error:
        return TransferQuorumLeaderResponse(error_code=error.code, error_message=error.message)
    return TransferQuorumLeaderResponse()
