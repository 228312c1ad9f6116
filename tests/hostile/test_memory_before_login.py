"""Clients that never log in cannot fill the broker's memory: it keeps their conversations for a while."""

from __future__ import annotations

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.hostile.large import encoded, exchange
from tests.security.kit import call, port_of, secure_broker
from tests.support.memory import resident_mib
from tests.wire.client import WireClient

ATTEMPTS = 1_500
GROWTH_MIB_MAX = 96
"""A broker that keeps the long messages grows by 280 MiB."""


def test_long_scram_messages_of_strangers_are_not_kept() -> None:
    first = b"n,,n=u,r=" + b"r" * 64_000
    with secure_broker(settings={"listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}) as broker:
        before = resident_mib(broker.pid)
        for _ in range(ATTEMPTS):
            with WireClient(port_of(broker, "SASL")) as client:
                assert call(client, m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")).error_code == 0
                exchange(client.plain, encoded(m.SaslAuthenticateRequest(auth_bytes=first), 2))
        assert resident_mib(broker.pid) < before + GROWTH_MIB_MAX
        with WireClient(port_of(broker, "SASL")) as client:
            call(client, m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
            answer = call(client, m.SaslAuthenticateRequest(auth_bytes=first))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
