"""Hostile bytes at a listener with TLS: inside TLS, in handshakes and in records. The broker does not crash, its memory
does not grow, and other clients continue."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from pybroker import Broker
from pybroker.protocol import messages as m
from tests.hostile.attack import frames
from tests.hostile.corpus import spoiled
from tests.security.kit import call, port_of, through_tls
from tests.support.certificates import Authority
from tests.support.memory import resident_mib

CONNECTIONS = 400
AT_ONCE = 16
"""The broker closes a failed handshake after a delay (`connection.failed.authentication.delay.ms`)."""
FRAMES = 20
GIVE_UP_S = 120.0
GROWTH_MAX_MIB = 64.0
"""Limit for memory of sessions and buffers; one leaked connection in ten would exceed it."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def broker(authority: Authority, tmp_path: Path) -> Iterator[Broker]:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.identity("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "requested",
        "connection.authentication.timeout.ms": "3s",
        "max.connections.per.ip": "100000",
    }
    with Broker(settings) as broker:
        yield broker
        log = broker.log_path.read_text()
        assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
        assert "panicked" not in log


def context_of(authority: Authority) -> ssl.SSLContext:
    """Use a client certificate, so that a handshake has all of its messages."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(authority.identity("client"))
    return context


def is_served(broker: Broker, context: ssl.SSLContext) -> bool:
    with through_tls(port_of(broker, "SSL"), context) as client:
        return call(client, m.ApiVersionsRequest(), 0).error_code == 0


def ended(plain: socket.socket) -> None:
    """End the sending side, and wait until the broker ends its side, too."""
    with contextlib.suppress(OSError):
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(1 << 16):
            pass
    plain.close()


def attack(broker: Broker, one: Callable[[socket.socket, int], None]) -> None:
    """Open many connections, some at the same time; `one` gets the number of each. Check that memory stays at the level
    after the first ones."""

    def connection(number: int) -> None:
        plain = socket.create_connection(("127.0.0.1", port_of(broker, "SSL")), timeout=GIVE_UP_S)
        one(plain, number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(connection, range(CONNECTIONS // 4)))
        settled = resident_mib(broker.pid)
        list(pool.map(connection, range(CONNECTIONS // 4, CONNECTIONS)))
    assert resident_mib(broker.pid) - settled < GROWTH_MAX_MIB


def test_hostile_frames(broker: Broker, authority: Authority) -> None:
    context = context_of(authority)

    def one(plain: socket.socket, number: int) -> None:
        secured = context.wrap_socket(plain, server_hostname="localhost")
        with contextlib.suppress(OSError):
            secured.sendall(b"".join(islice(frames(number), FRAMES)))
        ended(secured)

    attack(broker, one)
    assert is_served(broker, context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
@pytest.mark.parametrize("flight", [0, 1], ids=["hello", "what follows it"])
def test_hostile_handshakes(broker: Broker, authority: Authority, version: ssl.TLSVersion, flight: int) -> None:
    """The bytes of one of the client's flights are corrupted; those before it are correct."""
    honest, context = context_of(authority), context_of(authority)
    context.minimum_version = context.maximum_version = version

    def one(plain: socket.socket, number: int) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        for at in range(flight + 1):
            while not outgoing.pending:
                with contextlib.suppress(ssl.SSLWantReadError):
                    session.do_handshake()
                if not outgoing.pending:
                    incoming.write(plain.recv(1 << 16))
            sent = outgoing.read()
            with contextlib.suppress(OSError):
                plain.sendall(spoiled(sent, random.Random(number)) if at == flight else sent)
        ended(plain)

    attack(broker, one)
    assert is_served(broker, honest)
