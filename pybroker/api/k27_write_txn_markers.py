"""WriteTxnMarkers (key 27), versions 0–2: ends transactions in partitions that this broker leads.

For brokers, and for administrators that end a hanging transaction by hand (KIP-664), who need CLUSTER_ACTION or ALTER
on the cluster. v2 says by which version of the protocol the transaction ran. A marker of an older epoch than the
partition knows is refused with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
"""

from __future__ import annotations

import asyncio

from pybroker.api.transactional import part_of
from pybroker.coordinators.shards.ports import Topics
from pybroker.coordinators.transaction.markers import LocalMarkers
from pybroker.coordinators.transaction.ports import Marker
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
from pybroker.requests.context import RequestContext
from pybroker.security.acls import AclOperation
from pybroker.security.authorizer import Authorizer

API_KEY = 27


async def handle(
    markers: LocalMarkers,
    topics: Topics,
    authorizer: Authorizer,
    context: RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse:
    """Answers when all markers are committed or refused."""
    if not authorizer.may_on_cluster(context, AclOperation.ALTER):
        authorizer.require_cluster(context, AclOperation.CLUSTER_ACTION)
    return WriteTxnMarkersResponse(
        markers=list(await asyncio.gather(*(_write(markers, topics, one) for one in request.markers)))
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
    found = {
        (topic.name, partition): part_of(topics, topic.name, partition)
        for topic in asked.topics
        for partition in topic.partition_indexes
    }
    parts = [part for part in found.values() if part is not None]
    try:
        codes = dict(zip(parts, await markers.write(marker, parts), strict=True))
    except KafkaError as error:
        codes = dict.fromkeys(parts, ErrorCode(error.code))
    return WriteTxnMarkersResponse_WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WriteTxnMarkersResponse_WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WriteTxnMarkersResponse_WritableTxnMarkerPartitionResult(
                        partition_index=partition,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        if (part := found[topic.name, partition]) is None
                        else codes[part],
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )
