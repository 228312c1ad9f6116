"""UnregisterController (key 94), version 0: ends the registration of a controller that will not come back (KIP-1312).

Behavior
- Any broker answers; the leader of the metadata quorum decides. It needs ALTER on the cluster.
- The leader and the other voters are INVALID_REQUEST, an unknown id is CONTROLLER_ID_NOT_REGISTERED.

Differs from Kafka
- A node is a controller while it is a voter, and its broker registration is its only one. When it does not vote, there
  is nothing left to end: the answer confirms it, also when the request is repeated.
- Kafka 4.4 unregisters a voter other than the leader.
"""

from __future__ import annotations

from pybroker.broker.admin.quorum import VoterAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import UnregisterControllerRequest, UnregisterControllerResponse

API_KEY = 94


async def handle(
    quorum: VoterAdmin, authorizer: Authorizer, context: RequestContext, request: UnregisterControllerRequest
) -> UnregisterControllerResponse:
    """Respond with the leader's decision."""
    try:
        authorizer.require_cluster(context, AclOperation.ALTER)
        await quorum.unregister(request.controller_id, context.caller)
    except KafkaError as error:
        return UnregisterControllerResponse(error_code=error.code, error_message=error.message)
    return UnregisterControllerResponse()
