"""EndTxn (key 26), versions 0–5: a producer commits or aborts its transaction.

Answered when the outcome is stored; the markers follow, and what the producer begins before they are written is told
CONCURRENT_TRANSACTIONS. v2 knows PRODUCER_FENCED. From v5 on (KIP-890) the producer goes on under the epoch, or the id,
that the answer gives.
"""

from __future__ import annotations

from pybroker.api.transactional import require_transactional_id, told
from pybroker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.coordinators.transaction.transaction import Producer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import EndTxnRequest, EndTxnResponse
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 26

KNOWS_FENCED = 2
BUMPS_EPOCH = 5


async def handle(
    transactions: TransactionCoordinator, authorizer: Authorizer, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse:
    """Answers when the outcome is stored."""
    who = Producer(request.producer_id, request.producer_epoch)
    try:
        require_transactional_id(authorizer, context, AclOperation.WRITE, request.transactional_id)
        if context.api_version >= BUMPS_EPOCH:
            successor = await transactions.end_and_bump(request.transactional_id, who, commit=request.committed)
            return EndTxnResponse(producer_id=successor.producer_id, producer_epoch=successor.epoch)
        await transactions.end(request.transactional_id, who, commit=request.committed)
    except KafkaError as error:
        return EndTxnResponse(error_code=told(error.code, context.api_version, KNOWS_FENCED))
    return EndTxnResponse()
