"""FindCoordinator (key 10), versions 0–6: which broker coordinates a group or a transactional id.

v1 has key types (0 group, 1 transaction, 2 share group from v6), v4 several keys in one request. The first call of a
cluster's life creates the internal topic. Share groups are not served: INVALID_REQUEST.
"""

from __future__ import annotations

from pybroker.api.transactional import require_transactional_id
from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponse_Coordinator,
)
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 10

GROUP, TRANSACTION = 0, 1

async def handle(
    groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    authorizer: Authorizer,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse:
    """Waits only while the internal topic is being created."""

    async def find(key: str) -> FindCoordinatorResponse_Coordinator:
        try:
            if request.key_type == TRANSACTION:
                require_transactional_id(authorizer, context, AclOperation.DESCRIBE, key)
                node_id, host, port = await transactions.find(key, context.listener)
            elif request.key_type == GROUP:
                authorizer.require_group(context, AclOperation.DESCRIBE, key)
                node_id, host, port = await groups.find(key, context.listener)
            else:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Coordinators of key type {request.key_type} are not served."
                )
        except KafkaError as error:
            return FindCoordinatorResponse_Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
            )
        return FindCoordinatorResponse_Coordinator(key=key, node_id=node_id, host=host, port=port)

    if context.api_version < 4:
        one = await find(request.key)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    return FindCoordinatorResponse(coordinators=[await find(key) for key in request.coordinator_keys])
