"""Brokers to test against: the installed product, and Apache Kafka as the reference."""

from __future__ import annotations

import base64
import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from tests.support.java import java_command
from tests.support.maven import BROKER, jars
from tests.support.wire import answers_metadata, free_port

START_TIMEOUT_S = 200.0
STOP_TIMEOUT_S = 90.0
POLL_S = 0.005

# Settings for both kinds of brokers, under names that both know: a test then has one expectation for both.
SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
}


def end_with_the_tests() -> None:
    """Called in the child process. A test run that is killed must not leave its brokers running (Linux:
    PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


class BrokerProcess(ABC):
    """One broker in a child process, with a data directory and a port that survive restarts."""

    name: str
    # Number of brokers, and default number of replicas of a topic.
    size = 1
    # Exit codes after SIGTERM that count as a clean stop; a JVM reports the signal.
    clean_exit_codes: frozenset[int] = frozenset({0})
    # Longest time for a start, in seconds.
    start_limit_s = START_TIMEOUT_S

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.settings = {**SETTINGS, **(settings or {})}
        self.console = folder / "console.log"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The log directory, with one folder per partition."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._child is not None, "the broker is not running"
        return self._child.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of all processes of the broker; here only one."""
        return (self.pid,)

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line. Called before each start."""

    def start(self) -> None:
        """Start the broker; return once it responds to Metadata."""
        self.launch()
        self.await_answers()

    def launch(self) -> None:
        """Start the broker without waiting."""
        assert self._child is None, "the broker runs already"
        command = self.command()
        with self.console.open("ab") as console:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                preexec_fn=end_with_the_tests,  # noqa: PLW1509 (one call of libc, no lock is taken)
                env=self.environment(),
            )

    def await_answers(self) -> None:
        """Wait, after `launch`, until the broker responds to Metadata."""
        assert self._child is not None, "the broker is not running"
        give_up = time.monotonic() + self.start_limit_s
        while not answers_metadata(self.port):
            code = self._child.poll()
            if code is not None or time.monotonic() > give_up:
                self.kill()
                raise RuntimeError(f"{self.name} did not start (exit code {code}):\n{self.log_tail()}")
            time.sleep(POLL_S)

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def stop(self) -> None:
        """Stop the broker cleanly (SIGTERM). Fail if that takes unreasonably long or the broker reports a failure."""
        code = self._end(signal.SIGTERM)
        if code not in self.clean_exit_codes:
            raise RuntimeError(f"{self.name} ended with exit code {code}:\n{self.log_tail()}")

    def kill(self) -> int:
        """Kill the broker (SIGKILL), like a crash. Does nothing if it has already ended."""
        return self._end(signal.SIGKILL) if self._child is not None else 0

    def wait(self) -> int:
        """Wait until the broker ends without being stopped; return its exit code."""
        assert self._child is not None, "the broker is not running"
        try:
            code = self._child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} still runs:\n{self.log_tail()}") from None
        self._child = None
        return code

    def end(self) -> None:
        """End the broker in any state; leave no process running."""
        self.kill()

    def _end(self, how: signal.Signals) -> int:
        child = self._child
        assert child is not None, "the broker is not running"
        self._child = None
        if child.poll() is None:
            child.send_signal(how)
        try:
            return child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise RuntimeError(f"{self.name} did not stop within {STOP_TIMEOUT_S} s:\n{self.log_tail()}") from None

    def restart(self, *, crash: bool = False) -> None:
        """Stop the broker, or kill it, and start it again with the same port and data."""
        if crash:
            self.kill()
        else:
            self.stop()
        self.start()

    @property
    def running(self) -> bool:
        """Whether the child process is alive."""
        return self._child is not None and self._child.poll() is None

    def ended(self) -> int | None:
        """Return the exit code of a broker that has ended without being stopped; only the first call returns it. None
        if it runs or was stopped."""
        code = None if self._child is None else self._child.poll()
        if code is not None:
            self._child = None
        return code

    def log_tail(self, lines: int = 60) -> str:
        """Return the end of the broker's output, for the message of a failed test."""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])


class PybrokerProcess(BrokerProcess):
    """pybroker as a user starts it: by the installed command."""

    name = "pybroker"

    def command(self) -> list[str]:
        chosen = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        sets = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "pybroker", "start", *sets]

    def environment(self) -> dict[str, str]:
        # An installed package has compiled modules. Without them, each start would compile all modules (0.2 s).
        return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class KafkaProcess(BrokerProcess):
    """Apache Kafka from Maven Central: one node in KRaft mode, broker and controller in one process."""

    name = "Apache Kafka"
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        self.controller_port = free_port()
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a", 1)

    def command(self) -> list[str]:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data_dir),
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # When a killed broker restarts, it must wait until its former session has expired, so the session is not
            # longer than Kafka's default. It is not shorter either: a machine that hangs for a moment would have its
            # broker fenced.
            "broker.session.timeout.ms": "9000",
            "broker.heartbeat.interval.ms": "300",
            **self.settings,
        }
        file = self.folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        logging = self.folder / "log4j2.properties"
        logging.write_text(
            "status=error\nappender.c.type=Console\nappender.c.name=c\nappender.c.layout.type=PatternLayout\n"
            "appender.c.layout.pattern=[%d] %p %m (%c)%n\nrootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\n"
        )
        class_path = f"{jars(BROKER)}/*"
        if not (self.data_dir / "meta.properties").exists():
            subprocess.run(
                java_command(class_path, "kafka.tools.StorageTool", ["format", "-t", self.cluster_id, "-c", str(file)]),
                check=True,
                capture_output=True,
                timeout=START_TIMEOUT_S,
            )
        return java_command(class_path, "kafka.Kafka", [str(file)], heap="512m")

    def environment(self) -> dict[str, str]:
        options = f"-Dlog4j2.configurationFile=file:{self.folder / 'log4j2.properties'}"
        return {**os.environ, "JDK_JAVA_OPTIONS": options}
