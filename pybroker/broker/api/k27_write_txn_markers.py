"""WriteTxnMarkers (key 27), versions 0–2: ends transactions in partitions that this broker leads.

Behavior
- Brokers send it, and administrators who end a hanging transaction (KIP-664). It needs CLUSTER_ACTION or ALTER on the
  cluster.
- A marker with an epoch older than the partition's is refused with INVALID_PRODUCER_EPOCH or
  TRANSACTION_COORDINATOR_FENCED.

Versions
- v2 adds the transaction version. From v1 a tagged field names the topic by id (`topic_ids`).
"""

from __future__ import annotations

import asyncio

from pybroker.broker.api.topic_ids import meant
from pybroker.broker.api.transactional_requests import part_of
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.transaction.interfaces import Marker
from pybroker.broker.coordinators.transaction.markers import LocalMarkers
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequest_WritableTxnMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponse_WritableTxnMarkerPartitionResult,
    WriteTxnMarkersResponse_WritableTxnMarkerResult,
    WriteTxnMarkersResponse_WritableTxnMarkerTopicResult,
)

API_KEY = 27


async def handle(
    markers: LocalMarkers,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse:
    """Respond when all markers are committed or refused."""
    if not authorizer.may_on_cluster(context, AclOperation.ALTER):
        authorizer.require_cluster(context, AclOperation.CLUSTER_ACTION)
    return WriteTxnMarkersResponse(
        markers=list(await asyncio.gather(*(_write(markers, topics, marker) for marker in request.markers)))
    )


async def _write(
    markers: LocalMarkers, topics: Topics, asked: WriteTxnMarkersRequest_WritableTxnMarker
) -> WriteTxnMarkersResponse_WritableTxnMarkerResult:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    requested = [(meant(topics, topic.name, topic.topic_id), topic.partition_indexes) for topic in asked.topics]
    found = [(topic, [(index, part_of(topics, topic, index)) for index in indexes]) for topic, indexes in requested]
    parts = list(dict.fromkeys(part for _, row in found for _, part in row if isinstance(part, TransactionPartition)))
    try:
        codes = dict(zip(parts, await markers.write(marker, parts), strict=True))
    except KafkaError as error:
        codes = dict.fromkeys(parts, ErrorCode(error.code))
    return WriteTxnMarkersResponse_WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WriteTxnMarkersResponse_WritableTxnMarkerTopicResult(
                name=topic.asked,
                topic_id=topic.told_id,
                partitions=[
                    WriteTxnMarkersResponse_WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=codes[part] if isinstance(part, TransactionPartition) else part,
                    )
                    for index, part in row
                ],
            )
            for topic, row in found
        ],
    )
