"""EndTxn (key 26), versions 0–5: a producer commits or aborts its transaction.

Behavior
- The response leaves when the outcome is stored. Markers follow; the producer's next transaction waits for them
  (`coordinators.transaction.coordinator`).

Versions
- v2 adds PRODUCER_FENCED. From v5 the producer continues with the returned id and epoch (KIP-890).
"""

from __future__ import annotations

from pybroker.broker.api.transactional_requests import code_in_version, require_transactional_id
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.transaction import TransactionProducer
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.requests.deferred_response import DeferredResponse
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import EndTxnRequest, EndTxnResponse

API_KEY = 26

KNOWS_FENCED = 2
BUMPS_EPOCH = 5


def handle(
    transactions: TransactionCoordinator, authorizer: Authorizer, context: RequestContext, request: EndTxnRequest
) -> object:
    """Respond when the outcome is stored."""
    who = TransactionProducer(request.producer_id, request.producer_epoch)
    later = DeferredResponse()
    try:
        require_transactional_id(authorizer, context, AclOperation.WRITE, request.transactional_id)
        if context.api_version < BUMPS_EPOCH:
            transactions.end_then(
                request.transactional_id,
                who,
                lambda code: later.resolve(_answer(context, code)),
                commit=request.committed,
            )
        elif not transactions.end_and_bump_then(
            request.transactional_id,
            who,
            lambda code, successor: later.resolve(_answer(context, code, successor)),
            commit=request.committed,
        ):
            return _with_new_id(transactions, context, request)
    except KafkaError as error:
        later.resolve(_answer(context, error.code))
    return later.outcome()


async def _with_new_id(
    transactions: TransactionCoordinator, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse:
    """Return a response with a new producer id, because the old producer id has no epochs left."""
    who = TransactionProducer(request.producer_id, request.producer_epoch)
    try:
        successor = await transactions.end_and_bump(request.transactional_id, who, commit=request.committed)
    except KafkaError as error:
        return _answer(context, error.code)
    return _answer(context, ErrorCode.NONE, successor)


def _answer(context: RequestContext, code: int, successor: TransactionProducer | None = None) -> EndTxnResponse:
    if code:
        return EndTxnResponse(error_code=code_in_version(code, context.api_version, KNOWS_FENCED))
    if successor is None:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=successor.producer_id, producer_epoch=successor.epoch)
