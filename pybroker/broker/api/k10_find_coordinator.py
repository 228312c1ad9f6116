"""FindCoordinator (key 10), versions 0–6: returns the broker that coordinates a group or a transactional id.

Behavior
- The first request in a cluster creates the internal topic.
- The key of a share group's state is `group:topic id:partition`. It needs CLUSTER_ACTION.

Versions
- v1 adds key types (0 group, 1 transaction; from v6 2, share-group state). v4 takes several keys.
"""

from __future__ import annotations

from typing import NamedTuple

from pybroker.broker.api.transactional_requests import require_transactional_id
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.share_state.coordinator import ShareStateCoordinator
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponse_Coordinator,
)

API_KEY = 10

GROUP, TRANSACTION, SHARE = 0, 1, 2


class Coordinators(NamedTuple):
    """One coordinator of each kind."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    shares: ShareStateCoordinator


async def handle(
    coordinators: Coordinators,
    authorizer: Authorizer,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse:
    """Return the coordinators; wait only while the internal topic is being created."""

    async def find(key: str) -> FindCoordinatorResponse_Coordinator:
        try:
            if request.key_type == TRANSACTION:
                require_transactional_id(authorizer, context, AclOperation.DESCRIBE, key)
                node_id, host, port = await coordinators.transactions.find(key, context.listener)
            elif request.key_type == GROUP:
                authorizer.require_group(context, AclOperation.DESCRIBE, key)
                node_id, host, port = await coordinators.groups.find(key, context.listener)
            elif request.key_type == SHARE and context.api_version >= 6:
                authorizer.require_cluster(context, AclOperation.CLUSTER_ACTION)
                _check_share_key(key)
                node_id, host, port = await coordinators.shares.find(key, context.listener)
            else:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown coordinator key type {request.key_type}.")
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


def _check_share_key(key: str) -> None:
    parts = key.rsplit(":", 2)
    try:
        if len(parts) != 3 or not parts[0] or int(parts[2]) < 0:
            raise ValueError(key)
        Uuid.parse(parts[1])
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "The key of share-group state must have the form group:topic-id:partition."
        ) from None
