"""`pybroker` as a command: output and exit codes, each case in its own process."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.broker.lifecycle.process.foreground import ECHO_SECONDS
from tests.support.wire import answers_metadata, free_port

LIMIT_S = 120.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pybroker", *arguments]


def run(*arguments: str, cwd: Path | None = None, file_size_max: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if file_size_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_max, file_size_max))

    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=cwd, preexec_fn=limit
    )


def sets(data: Path, port: int = 0, settings: Mapping[str, str] | None = None) -> list[str]:
    chosen = {"log.dirs": str(data), "listeners": f"PLAINTEXT://127.0.0.1:{port}", **(settings or {})}
    return [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A started broker and its start line; the test kills it at the end."""
    process = subprocess.Popen(command("start", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        start_line = process.stdout.readline()
        assert start_line.startswith("pybroker is ready: "), process.communicate()
        yield process, start_line
    finally:
        process.kill()
        process.communicate()


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """Check that there is exactly one error line, without a traceback."""
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert len(complaints) == 1, done.stderr
    assert complaints[0].startswith("pybroker: ")
    for part in parts:
        assert part in complaints[0]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.returncode == code


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("pybroker ")


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "start" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["start", "--set", "num.partition=3"], "num.partition (--set): unknown setting; did you mean num.partitions?"),
        (["start", "--set", "num.partitions=x"], "num.partitions=x (--set): expected a whole number"),
        (["start", "--set", "num.partitions"], "--set num.partitions: expected key=value"),
        (["start", "--config", "absent.properties"], "absent.properties: cannot read the settings file"),
        (["start", "--set", "zookeeper.connect=zk:2181"], "remove the line"),
    ],
)
def test_bad_settings(tmp_path: Path, arguments: list[str], part: str) -> None:
    assert_refused(run(*arguments, cwd=tmp_path), 2, part)
    assert list(tmp_path.iterdir()) == [], "nothing is made before the settings are right"


def test_unknown_command() -> None:
    done = run("strat")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_start_line_and_clean_stop(tmp_path: Path) -> None:
    port = free_port()
    with running(*sets(tmp_path / "data", port)) as (process, line):
        assert f"PLAINTEXT://127.0.0.1:{port}" in line
        assert "cluster id " in line
        assert str(tmp_path / "data") in line
        assert answers_metadata(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def test_ctrl_c_is_a_clean_stop(tmp_path: Path) -> None:
    with running(*sets(tmp_path / "data")) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


def test_the_echo_of_a_signal_does_no_harm(tmp_path: Path) -> None:
    """timeout(1) and some supervisors send a signal twice at once. The stop stays clean, whatever the broker is doing
    when the second signal arrives; many signals hit the moments in which it changes signal handlers."""
    quick = 0
    for _attempt in range(40):
        with running(*sets(tmp_path / "data")) as (process, _):
            first = time.monotonic()
            for _ in range(50):
                process.send_signal(signal.SIGTERM)
                time.sleep(random.random() * 0.0002)
            took = time.monotonic() - first
            ended = process.wait(LIMIT_S)
        if took < ECHO_SECONDS / 2:  # else this machine was too busy: the last of them may count as a second signal
            assert ended == 0
            quick += 1
        if quick == 10:
            break
    assert quick > 0, "each of 40 series of signals took long enough to hold a second one"


def test_settings_file_and_relative_data_directory(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=here\nnum.io.threads=8\n")
    process = subprocess.Popen(
        command("start", "--config", "server.properties"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert str(tmp_path / "here") in process.stdout.readline()
        process.terminate()
        _, log = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert log.count("WARN Kafka settings that have no effect in this broker: num.io.threads") == 1


def test_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run("start", *sets(tmp_path / "data", port))
    assert_refused(done, 1, str(port), "in use")


def test_metrics_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = run("start", *sets(tmp_path / "data", settings={"metrics.listener": address}))
    assert_refused(done, 1, f"metrics.listener={address}", "in use")


def test_address_of_another_machine(tmp_path: Path) -> None:
    done = run("start", *sets(tmp_path / "data", settings={"listeners": "PLAINTEXT://192.0.2.1:9092"}))
    assert_refused(done, 1, "192.0.2.1:9092")


def test_data_directory_in_use(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(*sets(data)):
        assert_refused(run("start", *sets(data)), 1, str(data), "in use by another broker")


def test_data_directory_of_another_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(*sets(data)) as (process, _):
        process.terminate()
        process.wait(LIMIT_S)
    properties = data / "meta.properties"
    lines = properties.read_text().splitlines()
    changed = ["cluster.id=AAAAAAAAAAAAAAAAAAAAAB" if line.startswith("cluster.id=") else line for line in lines]
    assert changed != lines
    properties.write_text("\n".join(changed) + "\n")
    assert_refused(run("start", *sets(data)), 1, "AAAAAAAAAAAAAAAAAAAAAB")


def test_data_directory_of_another_broker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(*sets(data)) as (process, _):
        process.terminate()
        process.wait(LIMIT_S)
    assert_refused(run("start", *sets(data, settings={"node.id": "7"})), 1, "7")


def test_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    assert_refused(run("start", *sets(tmp_path / "data")), 1, str(tmp_path / "data"))


def test_data_directory_that_cannot_be_entered(tmp_path: Path) -> None:
    """A link to itself cannot be entered by any user; missing permissions stop all users but root."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert_refused(run("start", *sets(loop)), 1, str(loop))
    if os.geteuid() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0)
        assert_refused(run("start", *sets(closed)), 1, str(closed))


def test_no_room_for_the_first_byte(tmp_path: Path) -> None:
    """A limit on file sizes simulates a full disk: the same calls fail, without a file system for the test."""
    assert_refused(run("start", *sets(tmp_path / "data"), file_size_max=0), 1, str(tmp_path / "data"))


def test_metrics_endpoint(tmp_path: Path) -> None:
    port = free_port()
    with running(*sets(tmp_path / "data", settings={"metrics.listener": f"127.0.0.1:{port}"})):
        assert b"200 OK" in get(port, "/healthz")
        assert b"200 OK" in get(port, "/readyz")
        metrics = get(port, "/metrics").decode()
        assert "kafka_server_kafkaserver_clusterid_info{cluster_id=" in metrics
        assert "\npybroker_cluster_topics 0\n" in metrics
        series = [line.rpartition(" ")[0] for line in metrics.split("\r\n\r\n")[1].splitlines() if line[0] != "#"]
        assert len(set(series)) == len(series), "each series once, or scrapers refuse the whole answer"


def get(port: int, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return connection.makefile("rb").read()


def test_a_start_is_quick_to_import() -> None:
    """The imports of a start beyond the interpreter's own do not include libraries of other commands."""
    script = (
        "import sys, pybroker.__main__, pybroker.broker.lifecycle.process.foreground, pybroker.broker.lifecycle.app\n"
        "late = ('click', 'rich', 'kazoo', 'http.server', 'http.client', 'pyspark', 'difflib', 'ctypes', 'unittest')\n"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.strip() == "[]"
