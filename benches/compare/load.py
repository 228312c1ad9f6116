"""The programs that generate load: built once, run once per measurement."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
TIMEOUT_S = 1_000
"""Longer than any `-limit` of a case."""


class Target(Protocol):
    """The loaded system: a broker or a cluster."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def pids(self) -> tuple[int, ...]:
        """Return the processes whose CPU is measured."""
        ...


def build() -> None:
    """Build the load client (Go) and the limit program (Rust); cheap without changes."""
    build_client()
    build_limit()


def build_client() -> None:
    """Build the load client."""
    target_dir().mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", str(_client()), "."], cwd=HERE / "load", check=True, timeout=900)


def build_limit() -> None:
    """Build the limit program."""
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "pybroker-limit"], cwd=ROOT, check=True, timeout=900)


def target_dir() -> Path:
    """Return Cargo's target directory with the built programs."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def _client() -> Path:
    return target_dir() / "bench-load"


def command(target: Target, operation: str, **options: object) -> list[str]:
    """Return the command line of one measurement."""
    flags = [part for name, value in options.items() for part in (f"-{name.replace('_', '-')}", str(value))]
    return [str(_client()), operation, "-bootstrap", target.bootstrap, "-pids", ",".join(map(str, target.pids)), *flags]


def run(target: Target, operation: str, **options: object) -> dict[str, Any]:
    """Run one measurement of `target` and return its figures, named with their units."""
    done = subprocess.run(
        command(target, operation, **options), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{target.name}: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def limit(
    operation: str,
    connections: int,
    megabytes: int,
    folder: Path,
    *,
    frame: int = 1 << 20,
    pace: int = 0,
    sync: int = 0,
) -> dict[str, Any]:
    """Measure the limit of the machine: `produce` or `fetch` of `frame` bytes at a time with the least possible work.

    `pace`: incoming MB/s, 0 for no limit; `sync`: bytes after which a file is synced, 0 for never.
    """
    return _limit(operation, connections, megabytes, folder, frame, pace, sync)


def journal_limit(connections: int, in_flight: int, folder: Path, frame: int, seconds: int = 5) -> dict[str, Any]:
    """Measure the limit of the machine if all waiting small frames share one write to the disk."""
    return _limit("journal", connections, seconds, folder, frame, in_flight)


def _limit(operation: str, connections: int, amount: int, folder: Path, *options: int) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(target_dir() / "release" / "pybroker-limit"), operation,
         *map(str, (connections, amount, folder, *options))],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
