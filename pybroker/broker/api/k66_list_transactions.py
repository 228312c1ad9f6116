"""ListTransactions (key 66), versions 0–2: lists the transactional ids that this broker coordinates (KIP-664).

Behavior
- Filters: states and producer ids.

Versions
- v1 adds a minimum duration. v2 adds a regular expression for the whole transactional id (KIP-1152), evaluated in
  linear time.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.broker.clock import Clock
from pybroker.broker.coordinators.transaction.coordinator import TransactionCoordinator
from pybroker.broker.coordinators.transaction.transaction import AT_REST, TransactionState
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import Authorizer, ResourceType
from pybroker.protocol import patterns
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponse_TransactionState,
)

API_KEY = 66

STATES = {state.shown: state for state in TransactionState}


async def handle(
    transactions: TransactionCoordinator,
    clock: Clock,
    authorizer: Authorizer,
    context: RequestContext,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse:
    """Return the ids that the client may describe."""
    matches: Callable[[str], bool] = lambda _: True  # noqa: E731
    if request.transactional_id_pattern:
        try:
            matches = patterns.compiled(request.transactional_id_pattern).matches
        except ValueError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    found, loading = transactions.list_transactions()
    if loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producers = set(request.producer_id_filters)
    began_before_ms = clock.wall_ms() - request.duration_filter
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES],
        transaction_states=[
            ListTransactionsResponse_TransactionState(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.shown,
            )
            async for transactional_id, transaction in context.turns.each(list(found))
            if (not request.state_filters or transaction.state in states)
            and (not producers or transaction.producer_id in producers)
            and (
                request.duration_filter < 0
                or (transaction.state not in AT_REST and transaction.start_ms < began_before_ms)
            )
            and matches(transactional_id)
            and authorizer.lists(context, ResourceType.TRANSACTIONAL_ID, transactional_id)
        ],
    )
