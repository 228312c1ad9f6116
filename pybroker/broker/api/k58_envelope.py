"""Envelope (key 58), between brokers only: forwards a client's request to the controller (KIP-590).

Behavior
- It carries one of pybroker's own events and the client's principal.
"""

from __future__ import annotations

from typing import Any

from pybroker.broker.cluster.cluster_view import ControllerTermView
from pybroker.broker.cluster.controller_client import InProcessControllerClient, RequestIdentity
from pybroker.broker.cluster.quorum_events import AskClusterId
from pybroker.broker.cluster.value_codec import UnreadableError, pack, pack_reply, unpack_event
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.native import CodecError, Uuid, decode, encode
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.caller import UnreadableCallerError, unpacked_caller
from pybroker.protocol.error_codes import ErrorCode

API_KEY = ApiKey.ENVELOPE


async def handle(
    controller: InProcessControllerClient,
    term_view: ControllerTermView,
    cluster_id: str,
    context: RequestContext,
    request: Any,
) -> Any:
    """Respond when the event's decision is complete. The response has the number of the controller's last change.
    NOT_CONTROLLER: this broker has decided nothing; the response contains the controller if it is known.
    """
    try:
        inner = decode(ApiKey.SUBMIT_EVENT, 0, request.request_data, True, interbroker=True)
        event = unpack_event(inner.event)
        caller = unpacked_caller(
            request.request_principal,
            request.client_host_address,
            inner.client_id,
            slowed_only=inner.slowed_only,
        )
    except (CodecError, UnreadableError, UnreadableCallerError) as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot decode the envelope: {problem}") from None
    if isinstance(event, AskClusterId):
        # Every broker answers this event.
        answer = wire.SubmitEventResponse(error_code=0, error_message=None, reply=pack_reply(cluster_id), in_force=True)
        return wire.EnvelopeResponse(response_data=encode(answer, 0), error_code=0)
    if not controller.is_open:
        return _not_controller(term_view)
    try:
        asked = RequestIdentity(request.request_id, inner.asked_ms_ago) if request.request_id != Uuid.ZERO else None
        decided = await controller.submit(event, inner.timeout_ms, caller=caller, asked_by=inner.broker_id, asked=asked)
        reply = wire.SubmitEventResponse(
            error_code=0,
            error_message=None,
            reply=pack_reply(decided.reply),
            in_force=decided.is_complete,
            throttle_time_ms=decided.throttle_time_ms,
        )
    except KafkaError as error:
        if error.code == ErrorCode.NOT_CONTROLLER:
            return _not_controller(term_view)
        reply = wire.SubmitEventResponse(error_code=error.code, error_message=error.message, reply=b"", in_force=False)
    epoch, number = term_view.changes
    return wire.EnvelopeResponse(
        response_data=encode(reply, 0), error_code=0, change_number=number, controller_epoch=epoch
    )


def _not_controller(term_view: ControllerTermView) -> Any:
    return wire.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER, response_data=pack(term_view.controller))
