"""EndTransaction (key 32167), between brokers only: the coordinator ends a transaction in partitions that this broker
leads.

Behavior
- It is Kafka's WriteTxnMarkers by topic id, so a marker never reaches another incarnation of a name.
"""

from __future__ import annotations

from typing import Any

from pybroker.broker.coordinators.transaction.interfaces import Marker
from pybroker.broker.coordinators.transaction.markers import LocalMarkers
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition
from pybroker.broker.requests.context import RequestContext
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.END_TRANSACTION


async def handle(markers: LocalMarkers, context: RequestContext, request: Any) -> Any:
    """Respond when all markers are committed or refused."""
    marker = Marker(
        request.producer_id,
        request.producer_epoch,
        request.committed,
        request.coordinator_epoch,
        request.transaction_version,
    )
    parts = [
        TransactionPartition(partition.topic, partition.topic_id, partition.partition_index)
        for partition in request.partitions
    ]
    codes = await markers.write(marker, parts)
    return wire.EndTransactionResponse(partition_errors=[int(code) for code in codes])
