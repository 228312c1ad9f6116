"""FindCoordinator (key 10), versions 0–6: which broker coordinates a group.

v1 has key types (0 group, 1 transaction, 2 share group from v6), v4 several keys in one request. The first call of a
cluster's life creates the offsets topic. Transactions are not served yet: this broker is named, and refuses what is
asked of it then (`coordinators/no_transactions.py` says why). Share groups are not served: INVALID_REQUEST.
"""

from __future__ import annotations

from pybroker.coordinators.group.coordinator import GroupCoordinator
from pybroker.coordinators.no_transactions import NoTransactions
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
    transactions: NoTransactions,
    authorizer: Authorizer,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse:
    """Waits only while the offsets topic is being created."""

    async def find(key: str) -> FindCoordinatorResponse_Coordinator:
        try:
            if request.key_type == TRANSACTION:
                node_id, host, port = transactions.find(context.listener)
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
