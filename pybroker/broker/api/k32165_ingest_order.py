"""IngestOrder (key 32165), between brokers only: the receiver brings the listed attempts to disk before another broker
commits the ingest (docs/staged-ingest.md)."""

from __future__ import annotations

from typing import Any

from pybroker.broker.cluster.ingest_orders import PrepareIngest
from pybroker.broker.cluster.value_codec import UnreadableError, pack, unpack
from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode

API_KEY = ApiKey.INGEST_ORDER


async def handle(ingests: Ingests, context: RequestContext, request: Any) -> Any:
    """Respond when the attempts are on this broker's disk, or with the reason for the failure."""
    try:
        order: PrepareIngest = unpack(PrepareIngest, request.order)
    except UnreadableError as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot decode the ingest order: {problem}") from None
    try:
        prepared = await ingests.prepare_here(order)
    except KafkaError as error:
        return wire.IngestOrderResponse(error_code=error.code, error_message=error.message, outcome=b"")
    return wire.IngestOrderResponse(error_code=0, error_message=None, outcome=pack(prepared))
