"""ZooKeeper servers for tests: that of `pybroker.testing`, also with TLS and as an ensemble."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from pybroker.testing.child_processes import free_port
from pybroker.testing.zookeeper.server import ZooKeeper

CLIENT_SESSION_S = 60.0
"""Session timeout of test clients: longer than a loaded machine hangs."""
CONNECT_S = 120.0


class ZooKeeperServer(ZooKeeper):
    """One server. `start` returns when it serves clients (in an ensemble: when there is a quorum)."""

    def __init__(
        self,
        directory: Path,
        number: int = 1,
        ports: Sequence[tuple[int, int, int]] = (),
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """ports: of every server of the ensemble: for clients, for followers, for elections. tls: the server's PEM file
        and the authority's certificate, for a second port; clients need a certificate there."""
        super().__init__(directory)
        self._secure_port = free_port() if tls else 0
        if ports:
            self.port = ports[number - 1][0]
            self.data_dir.mkdir(parents=True, exist_ok=True)
            (self.data_dir / "myid").write_text(str(number))
            self.settings |= {"initLimit": "50", "syncLimit": "50"} | {
                f"server.{each}": f"127.0.0.1:{peer}:{election}" for each, (_, peer, election) in enumerate(ports, 1)
            }
        if tls:
            identity, authority = tls
            self.settings |= {
                "secureClientPort": str(self._secure_port),
                "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": str(identity),
                "ssl.trustStore.location": str(authority),
                "ssl.clientAuth": "need",
            }

    @property
    def secure_address(self) -> str:
        """`host:port` with TLS."""
        return f"127.0.0.1:{self._secure_port}"


class Ensemble:
    """Several servers that form an ensemble."""

    def __init__(self, directory: Path, size: int) -> None:
        ports = [(free_port(), free_port(), free_port()) for _ in range(size)]
        self.servers = [ZooKeeperServer(directory / f"zookeeper-{n}", n, ports) for n in range(1, size + 1)]

    @property
    def connect(self) -> str:
        """Value for `zookeeper.connect`."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """Start all servers; return when all serve clients."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait()

    def stop(self) -> None:
        """Stop all servers."""
        for server in self.servers:
            server.stop()


@contextlib.contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeperServer]:
    """Run one server during the block."""
    server = ZooKeeperServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def zookeeper_client(address: str) -> Iterator[Any]:
    """Return a connected KazooClient; its session ends with the block."""
    client = KazooClient(hosts=address, timeout=CLIENT_SESSION_S)
    try:
        client.start(CONNECT_S)
        yield client
    finally:
        client.stop()
        client.close()
