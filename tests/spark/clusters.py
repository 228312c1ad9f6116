"""Spark clusters of several processes on this machine, from `pip install pyspark`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.brokers import end_with_the_tests
from tests.support.processes import kill_all, tree
from tests.support.wire import free_port

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 120.0
# Two host names of this machine: Spark runs no two attempts of a task on the same host.
HOSTS = ("127.0.0.1", "localhost")
MODULE = "org.apache.spark.deploy"


def home(folder: Path) -> Path:
    """Yield a SPARK_HOME with all files of pyspark's, in which executors create their working directories. Otherwise
    they would create them among the installed packages."""
    made = folder / "spark-home"
    made.mkdir(parents=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        (made / each.name).symlink_to(each)
    return made


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a driver or a daemon that belongs to a test."""
    return {
        **os.environ,
        "SPARK_HOME": str(home(folder)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def driver(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A driver with its output in `folder`/driver.log; processes that remain at the end are killed."""
    with (folder / "driver.log").open("ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            preexec_fn=end_with_the_tests,  # noqa: PLW1509 (one call of libc, no lock is taken)
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            kill_all(tree(child.pid))
        child.wait(STOP_TIMEOUT_S)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a master and a worker with one core for each of HOSTS; yield the master's address."""
    env = environment(folder)
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    daemons = [_daemon(folder, env, "master.Master", "--host", "127.0.0.1", "--port", str(port))]
    try:
        _wait_for(port, daemons[0], folder)
        for host in HOSTS:
            work = ["--work-dir", str(folder / f"work-{host}"), "--cores", "1", "--memory", "1g"]
            daemons.append(_daemon(folder, env, "worker.Worker", "--host", host, *work, address))
        yield address
    finally:
        for each in reversed(daemons):
            kill_all(tree(each.pid))
            each.wait(STOP_TIMEOUT_S)


def _daemon(folder: Path, env: Mapping[str, str], kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    spark_class = str(Path(env["SPARK_HOME"], "bin", "spark-class"))
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            [spark_class, f"{MODULE}.{kind}", "--webui-port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(env),
            preexec_fn=end_with_the_tests,  # noqa: PLW1509 (one call of libc, no lock is taken)
        )


def _wait_for(port: int, daemon: subprocess.Popen[bytes], folder: Path) -> None:
    give_up = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            return
        except OSError as error:
            if daemon.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"Spark did not start:\n{(folder / 'daemons.log').read_text()[-3000:]}") from error
        time.sleep(0.05)
