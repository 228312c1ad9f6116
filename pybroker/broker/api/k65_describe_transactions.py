"""DescribeTransactions (key 65), version 0: returns state and partitions of transactional ids that this broker
coordinates (KIP-664)."""

from __future__ import annotations

from pybroker.broker.api.transactional_requests import require_transactional_id
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.transaction import TransactionState
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponse_TopicData,
    DescribeTransactionsResponse_TransactionState,
)

API_KEY = 65

NO_TRANSACTION = -1


def handle(
    transactions: TransactionCoordinator,
    authorizer: Authorizer,
    context: RequestContext,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse:
    """Return the transactions without topics that the client may not describe. Not a coroutine: everything is in
    memory.
    """
    return DescribeTransactionsResponse(
        # Return each id only once. Otherwise each repetition of an id, a few bytes, would return all its partitions
        # again.
        transaction_states=[
            _describe(transactions, authorizer, context, transactional_id)
            for transactional_id in dict.fromkeys(request.transactional_ids)
        ]
    )


def _describe(
    transactions: TransactionCoordinator, authorizer: Authorizer, context: RequestContext, transactional_id: str
) -> DescribeTransactionsResponse_TransactionState:
    try:
        require_transactional_id(authorizer, context, AclOperation.DESCRIBE, transactional_id)
        found = transactions.describe(transactional_id)
    except KafkaError as error:
        return DescribeTransactionsResponse_TransactionState(error_code=error.code, transactional_id=transactional_id)
    by_topic: dict[str, list[int]] = {}
    for part in sorted(found.partitions):
        if authorizer.permits_topic(context, AclOperation.DESCRIBE, part.topic):
            by_topic.setdefault(part.topic, []).append(part.partition)
    return DescribeTransactionsResponse_TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.shown,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=NO_TRANSACTION if found.state is TransactionState.EMPTY else found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            DescribeTransactionsResponse_TopicData(topic=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )
