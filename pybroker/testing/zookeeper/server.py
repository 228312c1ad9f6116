"""One ZooKeeper server on 127.0.0.1, for tests; its data does not survive a power failure."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from pybroker.testing.child_processes import ChildGuard, free_port, pause
from pybroker.testing.maven import java_command, pinned_jars

START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 60
TICK_MS = 200
"""ZooKeeper's tickTime. Sessions last between 2 and 20 ticks, and tests need short ones."""
LOG_TAIL_CHARS = 3000
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_HERE = Path(__file__).parent


class ZooKeeperError(RuntimeError):
    """ZooKeeper did not start; the text is the end of its log."""


def zookeeper_jars() -> Path:
    """Return the folder with ZooKeeper's jars; the first call downloads them from Maven Central. Raises
    DownloadError.
    """
    return pinned_jars("zookeeper", _HERE / "pom.xml", _HERE / "checksums.sha256")


class ZooKeeper:
    """One server with data and log below `directory`. It ends with this process.

    settings: lines of zoo.cfg, which override the settings of this class.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.heap = "192m"
        self.directory = directory
        self.port = free_port()
        self.settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ChildGuard | None = None

    @property
    def address(self) -> str:
        """`host:port`, for `zookeeper.connect`."""
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The folder of ZooKeeper's snapshots and transaction logs."""
        return self.directory / "data"

    @property
    def log_path(self) -> Path:
        """The file with ZooKeeper's output."""
        return self.directory / "log.txt"

    @property
    def running(self) -> bool:
        """Whether the process is alive, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running server. Raises ZooKeeperError if it is not running."""
        if self._process is None:
            raise ZooKeeperError("ZooKeeper is not running")
        return self._process.pid

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self.running:
            raise ZooKeeperError("ZooKeeper is already running")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings = {
            "dataDir": str(self.data_dir),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(TICK_MS),
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,srvr",
            "autopurge.purgeInterval": "0",
            # Tests kill the process, but not the machine, so fsync is not needed.
            "forceSync": "no",
            **self.settings,
        }
        config = self.directory / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = java_command(f"{zookeeper_jars()}/*", _MAIN, [str(config)], heap=self.heap)
        command[1:1] = ["-Dzookeeper.fsync.warningthresholdms=10000", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with self.log_path.open("ab") as log:
            # Ctrl-C in the terminal goes to the test, which then stops the server.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._guard = ChildGuard(self._process.pid)

    def start(self) -> None:
        """Call `launch` and `wait`."""
        self.launch()
        self.wait()

    def wait(self) -> None:
        """Wait until the server serves clients (in an ensemble: until there is a quorum). Raises ZooKeeperError."""
        give_up = time.monotonic() + START_SECONDS_MAX
        while not self._serves():
            if not self.running or time.monotonic() > give_up:
                raise ZooKeeperError(f"ZooKeeper at {self.address} did not become ready:\n{self.log_tail()}")
            time.sleep(0.02)

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

    def log_tail(self) -> str:
        """Return the end of ZooKeeper's output."""
        return self.log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:] if self.log_path.exists() else ""

    def kill(self) -> None:
        """Kill the server (SIGKILL). The data stays for the next `start`. Does nothing if it is not running."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server (SIGTERM). The data stays. Does nothing if it is not running."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.end()
        if process is None:
            return
        if how is not signal.SIGKILL:
            # A paused process gets SIGTERM only after SIGCONT. Do not send SIGCONT before SIGKILL, because the process
            # would first run pending work.
            process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ZooKeeperError(f"ZooKeeper did not stop within {STOP_SECONDS_MAX} s:\n{self.log_tail()}") from None

    def pause(self) -> None:
        """Pause the server (SIGSTOP). It answers no requests until `resume`."""
        pause(self.pid)

    def resume(self) -> None:
        """Resume a paused server."""
        os.kill(self.pid, signal.SIGCONT)
