"""AddOffsetsToTxn (key 25), versions 0–4: adds a group's offsets to a producer's transaction.

Behavior
- It adds the group's partition of `__consumer_offsets`.

Versions
- v2 adds PRODUCER_FENCED.
"""

from __future__ import annotations

from pybroker.broker.api.transactional_requests import code_in_version, require_transactional_id
from pybroker.broker.coordinators.transaction.coordinator import PATIENCE_S, TransactionCoordinator
from pybroker.broker.coordinators.transaction.offset_commits import TransactionalCommits
from pybroker.broker.coordinators.transaction.transaction import TransactionProducer
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API_KEY = 25

KNOWS_FENCED = 2


async def handle(
    transactions: TransactionCoordinator,
    commits: TransactionalCommits,
    authorizer: Authorizer,
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse:
    """Respond when the partition is stored. The first request in a cluster waits until the offsets topic is created."""
    try:
        require_transactional_id(authorizer, context, AclOperation.WRITE, request.transactional_id)
        authorizer.require_group(context, AclOperation.READ, request.group_id)
        part = await commits.partition_of(request.group_id)
        who = TransactionProducer(request.producer_id, request.producer_epoch)
        await transactions.add(request.transactional_id, who, [part], patience_s=PATIENCE_S)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=code_in_version(error.code, context.api_version, KNOWS_FENCED))
    return AddOffsetsToTxnResponse()
