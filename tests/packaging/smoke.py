"""`python -m tests.packaging.smoke FILE`: installs a wheel or an sdist in a clean virtual environment, and runs a
broker.

A wheel is installed without Rust on PATH. The steps: start, create, produce, kill -9, start again, consume, stop.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

LIMIT_S = 120.0
SYSTEM = "/usr/bin:/bin"


def main(file: Path) -> None:
    """Raise AssertionError or CalledProcessError, whose output has the reason, if a step fails."""
    if file.suffix == ".whl":
        _check_wheel(file)
    with tempfile.TemporaryDirectory(prefix="pybroker-smoke-") as place:
        environment = Path(place) / "venv"
        venv.create(environment, with_pip=True)
        path = SYSTEM if file.suffix == ".whl" else os.environ["PATH"]
        variables = {"PATH": f"{environment / 'bin'}:{path}", "HOME": place, "LANG": "C.UTF-8"}
        if file.suffix != ".whl":
            ours = ("HOME", "CARGO_HOME", "RUSTUP_HOME")
            variables |= {name: os.environ[name] for name in ours if name in os.environ}
        run = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q", file]
        subprocess.run(run, check=True, env=variables)
        if file.suffix == ".whl":
            assert shutil.which("cargo", path=variables["PATH"]) is None, "Rust is on PATH: this proves nothing"
        _life(environment / "bin" / "pybroker", Path(place), variables)
    print(f"{file.name}: installed, started, killed, started again; every record was there")


def _check_wheel(file: Path) -> None:
    """Check that the wheel fits all Pythons from 3.11 on, and has its licence, types and files for the console."""
    assert re.fullmatch(r"pybroker-[\w.]+-cp311-abi3-(manylinux|musllinux|macosx)_\w+\.whl", file.name), file.name
    with zipfile.ZipFile(file) as opened:
        names = opened.namelist()
    wanted = ("pybroker/_native.abi3.so", "pybroker/py.typed", "/licenses/LICENSE", "pyspark_pybroker/__init__.py")
    assert [each for each in wanted if not any(name.endswith(each) for name in names)] == []
    assert [name for name in names if name.startswith("tests/")] == []


def _life(pybroker: Path, place: Path, variables: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = [f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={place / 'data'}"]
    start = [pybroker, "start", *(part for each in settings for part in ("--set", each))]
    lines = [f"record {number}" for number in range(1000)]

    def told(*arguments: str, text: str | None = None) -> str:
        command = [pybroker, *arguments, "--bootstrap-server", f"127.0.0.1:{port}"]
        done = subprocess.run(
            command,
            input=text,
            env=variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            cwd=place,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with subprocess.Popen(start, env=variables, cwd=place) as broker:
        try:
            _wait(port, broker)
            told("topics", "create", "smoke", "--partitions", "1")
            told("produce", "smoke", text="\n".join(lines) + "\n")
        finally:
            broker.kill()
    with subprocess.Popen(start, env=variables, cwd=place) as broker:
        try:
            _wait(port, broker)
            assert told("consume", "smoke").splitlines() == lines
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(LIMIT_S) == 0
        finally:
            broker.kill()


def _wait(port: int, broker: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up:
        assert broker.poll() is None, "the broker ended by itself"
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the broker does not listen")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(Path(each).resolve())
