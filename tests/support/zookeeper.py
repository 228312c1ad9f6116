"""A real Apache ZooKeeper for tests: one server or an ensemble, as child processes on free ports of 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.java import java_command
from tests.support.maven import ZOOKEEPER, jars
from tests.support.wire import free_port

START_TIMEOUT_S = 90
TICK_MS = 200
"""Sessions last between 2 and 20 ticks: tests want short ones."""


class ZooKeeperServer:
    """One server. `start` returns when it serves clients (of an ensemble: when it has a quorum)."""

    def __init__(
        self,
        directory: Path,
        number: int = 1,
        ports: Sequence[tuple[int, int, int]] = (),
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """`ports`: of every server of the ensemble: for clients, for followers, for elections. `tls`: the server's PEM
        file and the certificate of the authority, for a second port; clients must show a certificate there."""
        self.directory = directory
        self.number = number
        self._ports = list(ports) or [(free_port(), 0, 0)]
        self.port = self._ports[number - 1][0]
        self._tls = tls
        self._secure_port = free_port() if tls else 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure_address(self) -> str:
        """`host:port` under TLS."""
        return f"127.0.0.1:{self._secure_port}"

    def launch(self) -> None:
        """Starts the process; does not wait."""
        assert self._process is None
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = [
            f"dataDir={data}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            f"tickTime={TICK_MS}",
            "maxSessionTimeout=60000",
            "initLimit=50",
            "syncLimit=50",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=ruok,srvr",
            "autopurge.purgeInterval=0",
            # Tests end the process, not the machine.
            "forceSync=no",
        ]
        if len(self._ports) > 1:
            (data / "myid").write_text(str(self.number))
            lines += [
                f"server.{number}=127.0.0.1:{peer}:{election}"
                for number, (_, peer, election) in enumerate(self._ports, 1)
            ]
        if self._tls:
            identity, authority = self._tls
            lines += [
                f"secureClientPort={self._secure_port}",
                "secureClientPortAddress=127.0.0.1",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"ssl.keyStore.location={identity}",
                f"ssl.trustStore.location={authority}",
                "ssl.clientAuth=need",
            ]
        config = self.directory / "zoo.cfg"
        config.write_text("\n".join(lines) + "\n")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = java_command(f"{jars(ZOOKEEPER)}/*", main, [str(config)], heap="192m")
        command[1:1] = ["-Dzookeeper.fsync.warningthresholdms=10000", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with (self.directory / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def start(self) -> None:
        """`launch` and `wait`."""
        self.launch()
        self.wait()

    def wait(self) -> None:
        """Until clients are served."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self.directory / "log.txt").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"ZooKeeper at {self.address} does not serve:\n{text}")
            time.sleep(0.05)

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                connection.settimeout(5)
                connection.sendall(b"srvr")
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
        except OSError:
            return False
        return b"Mode: " in answer

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            if number != signal.SIGKILL:
                # One that is paused hears nothing else; but resumed, it would do what it was asked before it is killed.
                process.send_signal(signal.SIGCONT)
            process.send_signal(number)
            process.wait(60)

    def pause(self) -> None:
        """It answers nobody until `resume`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """After `pause`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


class Ensemble:
    """Several servers."""

    def __init__(self, directory: Path, size: int) -> None:
        numbers = [free_port() for _ in range(3 * size)]
        ports = [(numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]) for i in range(size)]
        self.servers = [ZooKeeperServer(directory / f"zookeeper-{n}", n, ports) for n in range(1, size + 1)]

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """All; returns when all serve."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait()

    def stop(self) -> None:
        """All."""
        for server in self.servers:
            server.stop()


@contextlib.contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeperServer]:
    """One running server."""
    server = ZooKeeperServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()
