"""UnregisterBroker (key 64), version 0 (KIP-631): removes a dead broker's registration.

Differs from Kafka
- The broker must be dead and have no replicas. Kafka also unregisters a broker that runs or has replicas; its
  partitions then name an unknown broker.
"""

from __future__ import annotations

from pybroker.broker.admin.replica_assignment import BrokerAdmin
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse

API_KEY = 64


async def handle(
    brokers: BrokerAdmin, authorizer: Authorizer, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Respond when this broker no longer shows the removed broker."""
    try:
        if not authorizer.permits_on_cluster(context, AclOperation.ALTER):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        await brokers.unregister(request.broker_id, caller=context.caller)
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse()
