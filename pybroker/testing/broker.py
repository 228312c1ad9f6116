"""`pybroker.Broker`: a broker for tests and experiments, in a child process that ends with its parent.

    with pybroker.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

It uses a free port and a temporary data directory, which is removed at the end. The child process isolates test and
broker from each other: a crash or a busy interpreter of one does not affect the other. See `pybroker.testing.fixtures`
for pytest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pybroker.config.properties import write_properties

START_SECONDS_MAX = 180.0
"""Limit in seconds of the wait for a start, which may have to recover gigabytes. A broker that cannot start exits at
once."""

STOP_SECONDS_MAX = 120.0
LOG_TAIL_BYTES = 16384

TEST_SETTINGS: Mapping[str, str] = {
    # With the default delay, a test's only consumer would wait three seconds for other members, and a consumer that
    # joins later would wait another second.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
}


class BrokerProcessError(RuntimeError):
    """The child process did not start, or ended without being stopped; the text contains the end of its log."""


class _Child:
    """Resources that are released even if the owner forgets `close()`: the process and the temporary directory."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.lifeline: int | None = None
        self.temporary: str | None = None

    def clean(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.cut_lifeline()
        if self.temporary is not None:
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.temporary = None

    def cut_lifeline(self) -> None:
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None


class Broker:
    """One broker process. Use it as a context manager (also `async with`), or call `start()` and `close()`.

    settings: broker settings under Kafka's names; values are text, numbers, booleans or lists. They override the
    settings of this class. data_dir: a directory that is kept; None = a temporary one, removed by `close()`. port: on
    127.0.0.1; 0 = a free port, kept across restarts.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
    ) -> None:
        self._settings = dict(settings or {})
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._port = port
        self._endpoints: list[tuple[str, str, int]] = []
        self._cluster_id: str | None = None
        self._child = _Child()
        self._finalizer = weakref.finalize(self, self._child.clean)

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients' bootstrap.servers."""
        _, host, port = self._started()[0]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self._started()[0][2]

    @property
    def endpoints(self) -> list[tuple[str, str, int]]:
        """Every client listener as (name, host, port)."""
        return list(self._started())

    @property
    def cluster_id(self) -> str:
        """The cluster id, created at the first start."""
        self._started()
        assert self._cluster_id is not None, "reported with the endpoints"
        return self._cluster_id

    @property
    def data_dir(self) -> Path:
        """The data directory, with one folder for each partition."""
        if self._data_dir is None:
            self._child.temporary = tempfile.mkdtemp(prefix="pybroker-")
            self._data_dir = Path(self._child.temporary) / "data"
        return self._data_dir

    @property
    def log_path(self) -> Path:
        """The file with the broker's output. Later starts append to it."""
        return self.data_dir.with_name(self.data_dir.name + ".console.log")

    @property
    def pid(self) -> int:
        """Process id of the running broker. Raises BrokerProcessError if it is not running."""
        process = self._child.process
        if process is None:
            raise BrokerProcessError("the broker is not running")
        return process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._child.process is not None and self._child.process.poll() is None

    def start(self) -> Self:
        """Start the broker, and return when it serves clients. Raises BrokerProcessError, with the broker's output, if
        it does not start."""
        if self.running:
            raise BrokerProcessError("the broker is already running")
        with _private_file(write_properties({name: _text(value) for name, value in self._settings.items()})) as path:
            self._launch(path)
        return self

    def _launch(self, settings_file: str) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        log_begin = self.log_path.stat().st_size if self.log_path.exists() else 0
        ready, ready_child = os.pipe()
        lifeline_child, lifeline = os.pipe()
        try:
            with self.log_path.open("ab") as console:
                process = subprocess.Popen(
                    self._command(ready_child, lifeline_child, settings_file),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=console,
                    pass_fds=(ready_child, lifeline_child),
                    start_new_session=True,  # Ctrl-C in the terminal goes to the test, which then stops the broker.
                )
        except BaseException:
            os.close(ready)
            os.close(lifeline)
            raise
        finally:
            os.close(ready_child)
            os.close(lifeline_child)
        self._child.cut_lifeline()
        self._child.process, self._child.lifeline = process, lifeline
        try:
            report = self._wait_ready(process, ready, log_begin)
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(ready)
        self._endpoints = [(name, host, port) for name, host, port in report["endpoints"]]
        self._cluster_id = report["cluster_id"]
        self._port = self._endpoints[0][2]

    def stop(self) -> int:
        """Stop the broker cleanly (SIGTERM) and return its exit code. The data stays for the next `start()`. Does
        nothing if the broker is not running.
        """
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Kill the broker (SIGKILL), like a crash. The data stays. Does nothing if the broker is not running."""
        return self._end(signal.SIGKILL)

    def restart(self, *, crash: bool = False) -> Self:
        """Stop the broker, or kill it, and start it again with the same port and data."""
        if crash:
            self.kill()
        else:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stop the broker and remove its temporary directory."""
        try:
            self.stop()
        finally:
            self._finalizer()
            if self._data_dir is not None and not self._data_dir.exists():
                self._data_dir = None

    def log_tail(self, begin: int = 0) -> str:
        """Return the end of the broker's output (from byte `begin` of `log_path`), for the message of a failed test."""
        if self._data_dir is None or not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as console:
            size = console.seek(0, os.SEEK_END)
            console.seek(max(begin, size - LOG_TAIL_BYTES))
            return console.read().decode("utf-8", "replace").strip()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def defaults(self) -> dict[str, str]:
        """Return the settings for the next start that the caller's settings override."""
        return {
            **TEST_SETTINGS,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self.data_dir),
        }

    def _started(self) -> list[tuple[str, str, int]]:
        if not self._endpoints:
            raise BrokerProcessError("the broker was never started")
        return self._endpoints

    def _command(self, ready_fd: int, parent_fd: int, settings_file: str) -> list[str]:
        """Return the command line. The caller's settings go into a file, because they may contain passwords, and every
        user of the machine can read command lines."""
        command = [
            sys.executable,
            "-m",
            "pybroker",
            "start",
            "--ready-fd",
            str(ready_fd),
            "--parent-fd",
            str(parent_fd),
            "--config",
            settings_file,
        ]
        for name, value in self.defaults().items():
            if name not in self._settings:
                command += ["--set", f"{name}={value}"]
        return command

    def _wait_ready(self, process: subprocess.Popen[bytes], ready: int, log_begin: int) -> dict[str, Any]:
        """Wait for the line that the child writes to the pipe when it serves clients. If the pipe closes without a
        line, the child has ended.
        """
        give_up = time.monotonic() + START_SECONDS_MAX
        received = b""
        while not received.endswith(b"\n"):
            left = give_up - time.monotonic()
            if left <= 0 or not select.select([ready], [], [], left)[0]:
                raise BrokerProcessError(
                    f"the broker was not ready after {START_SECONDS_MAX} s:\n{self.log_tail(log_begin)}"
                )
            chunk = os.read(ready, 65536)
            if not chunk:
                code = process.wait(STOP_SECONDS_MAX)
                raise BrokerProcessError(f"the broker did not start (exit code {code}): {self.log_tail(log_begin)}")
            received += chunk
        report = json.loads(received)
        assert isinstance(report, dict), "foreground writes an object"
        return report

    def _end(self, how: signal.Signals) -> int:
        process = self._child.process
        if process is None:
            return 0
        try:
            process.send_signal(how)  # This does nothing if the process has ended.
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerProcessError(
                f"the broker did not stop within {STOP_SECONDS_MAX} s:\n{self.log_tail()}"
            ) from None
        finally:
            self._child.process = None
            self._child.cut_lifeline()
        return code


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Yield the path of a temporary file that only this user can read."""
    # mkstemp creates the file with mode 0600
    descriptor, path = tempfile.mkstemp(prefix="pybroker-", suffix=".properties")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
