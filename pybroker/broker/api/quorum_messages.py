"""Requests of the metadata quorum, between brokers only: Vote (52, v0-1), BeginQuorumEpoch (53, v0-1), EndQuorumEpoch
(54, v0-1), FetchSnapshot (59, v1), and Fetch (1, v13) of the metadata topic.

Behavior
- This broker's node of the quorum answers, whether it leads or not.
- A Fetch of a registered broker counts as its heartbeat, if this broker is the controller.
- The response to a Fetch has the offsets that all brokers have applied, unless the request names their version.
- The request names partition 0 of the metadata topic, and nothing else; otherwise the response is INVALID_REQUEST.

Versions
- v0 of Vote, BeginQuorumEpoch and EndQuorumEpoch and v13 of Fetch have the layout of the KIP-516 text. Brokers send v1
  of the first three, which has the directory ids of KIP-853 and the pre-vote of KIP-996.

Differs from Kafka
- The messages name the metadata topic by its id, or by the sentinel id until they know it (KIP-516).
- Kafka has the replica's directory id, its high watermark, the snapshot id and the node endpoints in later versions of
  Fetch. Here version 13 has them in tagged fields of pybroker's own.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from pybroker.broker.cluster.controller_client import InProcessControllerClient
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from pybroker.broker.quorum.fetch_reports import is_served
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.native import decode, encode
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.interbroker import FetchResponse_AppliedOffset

API_KEYS = (
    ApiKey.FETCH,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
)
INDEXED_BY_PARTITION = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})
"""Requests with a partition index in the field `partition`. In the other requests the field is `partition_index`."""


class QuorumAnswers(Protocol):
    """Answers the requests of other nodes of the metadata quorum."""

    async def answer(self, api_key: int, api_version: int, body: bytes, *, at_once: bool = False) -> bytes:
        """Return the body of a response. With `at_once`, a Fetch does not wait for records. Raises ValueError if the
        message is not a request of the quorum."""
        ...


async def handle(
    quorum: QuorumAnswers | None,
    offsets: AppliedOffsets | None,
    controller: InProcessControllerClient,
    context: RequestContext,
    request: Any,
) -> Any:
    """Return the response of this broker's node. UNSUPPORTED_VERSION: the cluster has no metadata quorum."""
    if quorum is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "This cluster has no metadata quorum.")
    key, version = context.api_key, context.api_version
    index = "partition" if key in INDEXED_BY_PARTITION else "partition_index"
    if [[getattr(partition, index) for partition in topic.partitions] for topic in request.topics] != [[0]]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The request must name partition 0 of the metadata topic only.")
    try:
        at_once = key == ApiKey.FETCH and offsets is not None and offsets.must_answer(request.applied_version)
        body = await quorum.answer(key, version, encode(request, version), at_once=at_once)
    except ValueError as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"No message of the metadata quorum: {problem}") from None
    response = decode(key, version, body, False, interbroker=True)
    if key == ApiKey.FETCH and is_served(response):
        if request.replica_epoch >= 0:
            # If the controller does not know this broker epoch, the broker learns about it from the metadata.
            with contextlib.suppress(KafkaError):
                heartbeat = BrokerHeartbeat(request.replica_id, request.replica_epoch, request.applied_offset)
                await controller.submit(heartbeat)
        if offsets is not None and request.applied_version != offsets.version:
            response.applied_version = offsets.version
            response.applied_offsets = [
                FetchResponse_AppliedOffset(broker_id, offset) for broker_id, offset in offsets.offsets.items()
            ]
    return response
