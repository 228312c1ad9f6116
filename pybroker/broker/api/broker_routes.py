"""Routes of requests between brokers: API key → handler. Only a broker in a cluster imports this module."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pybroker.broker.api import (
    k04_leader_and_isr,
    k05_stop_replica,
    k06_update_metadata,
    k07_controlled_shutdown,
    k17_sasl_handshake,
    k36_sasl_authenticate,
    k56_alter_partition,
    k58_envelope,
    k32165_ingest_order,
    k32166_verify_transaction,
    k32167_end_transaction,
    k32168_append_dead_letters,
    k32170_probe_broker,
    k32171_staged_replicas,
    quorum_messages,
    share_states,
)
from pybroker.broker.api.controller_messages import ControlReceiver
from pybroker.broker.cluster.cluster_view import ControllerTermView
from pybroker.broker.cluster.controller_client import InProcessControllerClient
from pybroker.broker.cluster.value_codec import UnreadableError
from pybroker.broker.interbroker.by_name import LAST_BY_NAME
from pybroker.broker.interbroker.control_wire import received, response_to_wire
from pybroker.broker.metadata.control_messages import refusal
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from pybroker.broker.requests.context import Handler, RequestContext
from pybroker.broker.security.broker_gate import BrokerGate
from pybroker.broker.services import Services
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

CONTROLLERS = (
    k04_leader_and_isr.API_KEY,
    k05_stop_replica.API_KEY,
    k06_update_metadata.API_KEY,
    ApiKey.UPDATE_CLUSTER,
    ApiKey.RESTORE_REPLICAS,
    ApiKey.CLOSE_TOPICS,
    ApiKey.REOPEN_TOPICS,
)
"""Requests that a controller on another broker sends."""


async def handle_control(receiver: ControlReceiver, context: RequestContext, message: Any) -> Any:
    """Handle a control message from the wire. If the receiver fails (a bug), the response is UNKNOWN_SERVER_ERROR."""
    try:
        request = await received(message)
    except UnreadableError as problem:
        log.error("cannot decode a request of the controller: %s", problem)
        raise
    try:
        by_name = context.api_version == LAST_BY_NAME.get(type(request), -1)
        response = await receiver.handle(request, by_name=by_name)
    except Exception:
        log.exception("control request failed request=%s: this is a bug in pybroker", type(request).__name__)
        response = refusal(request, int(ErrorCode.UNKNOWN_SERVER_ERROR))
    return response_to_wire(response)


def broker_routes(
    services: Services,
    receiver: ControlReceiver,
    controller: InProcessControllerClient,
    term_view: ControllerTermView,
    *,
    probe: Callable[[int, int], Awaitable[bool]],
    quorum: quorum_messages.QuorumAnswers | None = None,
    applied_offsets: AppliedOffsets | None = None,
) -> dict[int, Handler]:
    """`probe`: see `PeerWatch`. `quorum` is this broker's node of the metadata quorum; its leader relays
    `applied_offsets`."""
    brokers_only: dict[int, Handler] = {
        **dict.fromkeys(CONTROLLERS, partial(handle_control, receiver)),
        k07_controlled_shutdown.API_KEY: partial(k07_controlled_shutdown.handle, controller),
        k56_alter_partition.API_KEY: partial(k56_alter_partition.handle, controller),
        k32170_probe_broker.API_KEY: partial(k32170_probe_broker.handle, probe),
        k32171_staged_replicas.API_KEY: partial(k32171_staged_replicas.handle, services.admin.staged_replicas),
        k58_envelope.API_KEY: partial(k58_envelope.handle, controller, term_view, services.cluster_id),
        k32165_ingest_order.API_KEY: partial(k32165_ingest_order.handle, services.ingests),
        k32166_verify_transaction.API_KEY: partial(k32166_verify_transaction.handle, services.transactions.membership),
        **dict.fromkeys(quorum_messages.API_KEYS, partial(quorum_messages.handle, quorum, applied_offsets, controller)),
        **{key: partial(handler, services.shares.states) for key, handler in share_states.HANDLERS.items()},
        k32167_end_transaction.API_KEY: partial(k32167_end_transaction.handle, services.transactions.markers),
        k32168_append_dead_letters.API_KEY: partial(k32168_append_dead_letters.handle, services.shares.dead_letters),
    }
    assert services.gate is not None
    return {
        k17_sasl_handshake.API_KEY: partial(k17_sasl_handshake.handle, services.sasl),
        k36_sasl_authenticate.API_KEY: partial(k36_sasl_authenticate.handle, services.sasl),
        **{key: partial(_of_broker, services.gate, handler) for key, handler in brokers_only.items()},
    }


def _of_broker(gate: BrokerGate, handler: Handler, context: RequestContext, message: Any) -> Any:
    gate.require(context)
    return handler(context, message)
