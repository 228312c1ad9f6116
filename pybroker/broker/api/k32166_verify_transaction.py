"""VerifyTransaction (key 32166), between brokers only: a leader asks the transaction coordinator whether partitions are
part of a transaction, before it appends the first records (KIP-890)."""

from __future__ import annotations

from typing import Any

from pybroker.broker.coordinators.transaction.membership import TransactionMembership
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition, TransactionProducer
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.VERIFY_TRANSACTION


async def handle(membership: TransactionMembership, context: RequestContext, request: Any) -> Any:
    """Respond immediately, or wait until running additions of partitions are stored."""
    who = TransactionProducer(request.producer_id, request.producer_epoch)
    parts = [
        TransactionPartition(partition.topic, partition.topic_id, partition.partition_index)
        for partition in request.partitions
    ]
    try:
        codes = await membership.judge(request.transactional_id, who, parts, adds=request.adds)
    except KafkaError as error:
        return wire.VerifyTransactionResponse(error_code=error.code)
    return wire.VerifyTransactionResponse(partition_errors=[int(code) for code in codes])
