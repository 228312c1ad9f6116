"""Connections without a request do not keep other persons from the console."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

from pybroker.console.web.idle_connections import CONNECTIONS_MAX, WAITING_MAX
from tests.console.console_process import Browserless, console

GIVE_UP_S = 60.0
HALF_A_HEAD = b"GET /topics HTTP/1.1\r\nHost: "
HALF_A_FORM = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


def test_silent_connections_give_way() -> None:
    """There are more silent connections of each kind than allowed: a page is served, and the silent connections are
    closed."""
    with console("127.0.0.1:1") as address, contextlib.ExitStack() as open_ones:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or 0
        for sent in (b"", HALF_A_HEAD, HALF_A_FORM):
            silent = []
            for _ in range(CONNECTIONS_MAX + WAITING_MAX + 20):
                connection = socket.create_connection((host, port), timeout=GIVE_UP_S)
                silent.append(open_ones.enter_context(connection))
                connection.sendall(sent)
            assert Browserless(address).get("/static/console.css").status in (200, 404), sent
            # The oldest connection was closed; the newest one has a time limit for its request.
            for connection in (silent[0], silent[-1]):
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(1 << 16):
                        pass
