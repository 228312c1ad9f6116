"""Clients cannot fill the log: lines that they cause are limited in rate and length, before and after a login."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from pybroker import Broker
from pybroker.broker.log_limits import MemberLines
from pybroker.protocol import messages as m
from tests.hostile.large import encoded
from tests.security.kit import ROOT, call, login, port_of, secure_broker
from tests.support.cluster import until
from tests.wire.client import WireClient

STRANGER = "stranger"
LONG = 30_000
"""Characters of a client id: a frame before the login may have 64 KiB."""
ATTEMPTS = 1_500
BYTES_A_SECOND_MAX = (1 << 20) // 60
LINE_BYTES_MAX = 1_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with secure_broker([STRANGER]) as broker:
        yield broker


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhi", key, version, 1) + struct.pack(">h", LONG) + b"x" * LONG


def malformed_handshake(broker: Broker) -> None:
    """Send a mechanism name whose length exceeds the frame."""
    send(broker, header(17, 1) + struct.pack(">h", 1_000) + b"PLAIN")


def no_login(broker: Broker) -> None:
    """Send a request that needs a login."""
    send(broker, header(3, 1) + struct.pack(">i", -1))


def unknown_key(broker: Broker) -> None:
    send(broker, header(999, 0))


def malformed_request(broker: Broker) -> None:
    """After a login, send an array whose length exceeds the request."""
    with login(broker, STRANGER) as client, contextlib.suppress(OSError):
        client.send_frame(header(15, 0) + struct.pack(">i", 1_000_000))
        client.receive_frame()


def refused_requests(broker: Broker) -> None:
    """After a login, send the longest possible names, for which the user has no permission."""
    with login(broker, STRANGER) as client:
        frame = encoded(m.DescribeGroupsRequest(groups=["g" * LONG]), 5)
        for _ in range(100):
            client.send_bytes(frame)
            client.receive_frame()


def wrong_password(broker: Broker) -> None:
    with WireClient(port_of(broker, "SASL"), client_id="x" * LONG) as client, contextlib.suppress(OSError):
        call(client, m.SaslHandshakeRequest(mechanism="PLAIN"))
        call(client, m.SaslAuthenticateRequest(auth_bytes=b"\0" + b"u" * LONG + b"\0wrong"))


def send(broker: Broker, frame: bytes) -> None:
    connection = socket.create_connection(("127.0.0.1", port_of(broker, "SASL")), timeout=60)
    with connection, contextlib.suppress(OSError):
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        while connection.recv(1 << 16):
            pass


@pytest.mark.parametrize(
    "attempt",
    [malformed_handshake, no_login, unknown_key, malformed_request, refused_requests, wrong_password],
    ids=lambda attempt: attempt.__name__,
)
def test_the_log_grows_slowly(broker: Broker, attempt: Callable[[Broker], None]) -> None:
    logged, began = broker.log_path.stat().st_size, time.monotonic()
    for _ in range(ATTEMPTS // (100 if attempt in (refused_requests, wrong_password, malformed_request) else 1)):
        attempt(broker)
    # The lines of a second may be written at once.
    seconds = time.monotonic() - began + 2
    grown = broker.log_path.read_bytes()[logged:]
    assert len(grown) < BYTES_A_SECOND_MAX * seconds, (len(grown), seconds)
    lines = grown.splitlines()
    assert all(len(line) < LINE_BYTES_MAX for line in lines), max(lines, key=len)[:2_000]
    assert lines or attempt is not malformed_handshake


GROUPS = 1_500
"""Each has three lines at least."""
NAME_BYTES = 5_000


def join(number: int) -> m.JoinGroupRequest:
    """Join a separate group with a long name."""
    return m.JoinGroupRequest(
        group_id=f"{number}".rjust(NAME_BYTES, "g"),
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[m.JoinGroupRequest_JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_members_of_groups_that_come_and_go_do_not_fill_the_log(broker: Broker) -> None:
    """A thousand lines may be written at once, so that the log shows an application that starts."""
    with login(broker, ROOT) as client:
        call(client, m.FindCoordinatorRequest(coordinator_keys=["any"]))
        until(lambda: call(client, join(0), 3).error_code == 0)
        logged, began = broker.log_path.stat().st_size, time.monotonic()
        for number in range(1, GROUPS):
            assert call(client, join(number), 3).error_code == 0
        seconds = time.monotonic() - began + 2
    lines = [line for line in broker.log_path.read_bytes()[logged:].splitlines() if b"INFO group " in line]
    assert 100 < len(lines) < MemberLines.AT_ONCE + MemberLines.A_SECOND * seconds
    assert all(len(line) < LINE_BYTES_MAX for line in lines)
