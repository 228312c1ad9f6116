"""InitProducerId (key 22), versions 0–5: returns a producer id and epoch.

Behavior
- Without a transactional id, a request that names a producer id of this cluster with unused epochs gets the same id, so
  a retry returns the same response. Any other request gets a new id.
- With a transactional id its coordinator answers: it fences the former producer and aborts its open transaction.

Versions
- From v3 a producer may send its id and epoch to get the next epoch (KIP-360). v4 adds PRODUCER_FENCED.
"""

from __future__ import annotations

from pybroker.broker.api.transactional_requests import code_in_version, require_transactional_id
from pybroker.broker.coordinators.producer_ids import ProducerIds
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.transaction import TransactionProducer
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

API_KEY = 22

NONE_GIVEN = -1
KNOWS_FENCED = 4


async def handle(
    producer_ids: ProducerIds,
    transactions: TransactionCoordinator,
    authorizer: Authorizer,
    context: RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse:
    """Respond. Without a transactional id, one request in a thousand waits for a new block of ids. With a transactional
    id, the response waits until the producer is stored.
    """
    try:
        _check(authorizer, context, request)
        claimed = None
        if request.producer_id != NONE_GIVEN:
            claimed = TransactionProducer(request.producer_id, request.producer_epoch)
        if request.transactional_id is not None:
            producer_id, epoch = await transactions.initialize(
                request.transactional_id, request.transaction_timeout_ms, claimed
            )
        elif claimed is None:
            producer_id, epoch = await producer_ids.next_id(), 0
        else:
            producer_id, epoch = await producer_ids.next_epoch(*claimed)
    except KafkaError as error:
        code = code_in_version(error.code, context.api_version, KNOWS_FENCED)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def _check(authorizer: Authorizer, context: RequestContext, request: InitProducerIdRequest) -> None:
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        require_transactional_id(authorizer, context, AclOperation.WRITE, request.transactional_id)
    # A client that may write to any topic may also use idempotence (KIP-679).
    elif not (
        authorizer.may_on_cluster(context, AclOperation.IDEMPOTENT_WRITE)
        or authorizer.permits_any(context, AclOperation.WRITE, ResourceType.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NONE_GIVEN) != (request.producer_epoch == NONE_GIVEN):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
