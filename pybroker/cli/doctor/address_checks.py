"""Checks that a broker's listener addresses are free."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from pybroker.cli.doctor.disk_checks import in_use
from pybroker.cli.doctor.finding import Finding, bad, ok
from pybroker.config import BrokerConfig
from pybroker.config.listener_addresses import host_port

PORTS = "ports"


def ports(config: BrokerConfig) -> Iterator[Finding]:
    """Check that the ports of `listeners` and `metrics.listener` are free. While a broker runs on these log
    directories, it holds the ports, and there is no check.
    """
    wanted = [(str(each), each.host, each.port) for each in config.listeners]
    if config["metrics.listener"]:
        address = config.get_str("metrics.listener")
        wanted.append((f"metrics.listener={address}", *host_port(address)))
    runs = any(in_use(Path(each)) for each in config.log_dirs)
    for shown, host, port in wanted:
        if port == 0:
            yield ok(PORTS, f"{shown}: the start selects a free port")
            continue
        problem = _taken(host, port)
        if problem is None:
            yield ok(PORTS, f"{shown} is free")
        elif problem.errno == errno.EADDRINUSE and runs:
            yield ok(PORTS, f"{shown}: in use by the broker that runs on these directories")
        else:
            yield bad(PORTS, f"{shown}: {_words(problem)}", _advice(problem, port))


def _taken(host: str, port: int) -> OSError | None:
    """Return the error of listening on an address; None if it is free."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as problem:
        return problem
    return None


def _words(problem: OSError) -> str:
    if isinstance(problem, socket.gaierror):
        return f"unknown host ({problem.strerror})"
    return os.strerror(problem.errno).lower() if problem.errno else str(problem)


def _advice(problem: OSError, port: int) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"find the process that uses the port: ss -ltnp 'sport = :{port}'"
    if problem.errno in (errno.EACCES, errno.EPERM):
        return "use a port above 1023, or give the service CAP_NET_BIND_SERVICE"
    return "use an address of this machine, or an empty host for all addresses"
