"""ProbeBroker (key 32170), between brokers only: reports whether a broker's port refuses connections from
this broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pybroker.broker.requests.context import RequestContext
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey

API_KEY = ApiKey.PROBE_BROKER


async def handle(probe: Callable[[int, int], Awaitable[bool]], context: RequestContext, request: Any) -> Any:
    """Respond after 300 ms if the port refuses connections for all that time, otherwise earlier."""
    return wire.ProbeBrokerResponse(refused=await probe(request.broker_id, request.broker_epoch))
