"""SaslHandshake (key 17), versions 0–1: the client chooses a SASL mechanism.

Versions
- After v0 the tokens follow without Kafka headers (KIP-43), after v1 in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from pybroker.broker.requests.context import LastResponse, RequestContext
from pybroker.broker.security.sasl_server import SaslServer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse

API_KEY = 17


def handle(
    sasl: SaslServer, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | LastResponse:
    """Return the response. If the mechanism is not enabled, also close the connection, as in Kafka."""
    mechanisms = list(sasl.mechanisms(context.listener))
    try:
        sasl.begin(context, request.mechanism)
    except KafkaError as error:
        response = SaslHandshakeResponse(error_code=error.code, mechanisms=mechanisms)
        if mechanisms and (not context.sasl_authenticated or error.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM):
            return LastResponse(response)
        return response
    return SaslHandshakeResponse(mechanisms=mechanisms)
