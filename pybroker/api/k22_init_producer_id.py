"""InitProducerId (key 22), versions 0–5: an id for an idempotent producer.

From v3 on a producer may bring its id and epoch to get the next epoch (KIP-360): one that this cluster has handed out
and whose epochs are not used up keeps its id, so that a retried request gives the same answer; any other gets a new
id. Transactions are not served yet: a transactional.id is refused for good (`coordinators/no_transactions.py`).
"""

from __future__ import annotations

from pybroker.coordinators.no_transactions import REFUSED
from pybroker.coordinators.producer_ids import ProducerIds
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation, ResourceType
from pybroker.security.authorizer import Authorizer

API_KEY = 22

NONE_GIVEN = -1


async def handle(
    producer_ids: ProducerIds, authorizer: Authorizer, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Waits only for a new block of ids, once in a thousand."""
    if request.transactional_id is not None:
        return _refused(REFUSED if request.transactional_id else ErrorCode.INVALID_REQUEST)
    # Who may write to any topic may do so idempotently (KIP-679).
    permitted = authorizer.may_on_cluster(context, AclOperation.IDEMPOTENT_WRITE) or authorizer.permits_any(
        context, AclOperation.WRITE, ResourceType.TOPIC
    )
    if not permitted:
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NONE_GIVEN) != (request.producer_epoch == NONE_GIVEN):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        if request.producer_id == NONE_GIVEN:
            producer_id, epoch = await producer_ids.next_id(), 0
        else:
            producer_id, epoch = await producer_ids.next_epoch(request.producer_id, request.producer_epoch)
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
