"""CPU time of a process and its descendants, and the CPU time of all other processes during the same period."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from benches.compare.peers import cpu_seconds

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1


def _processes() -> dict[int, tuple[int, float]]:
    """Return pid → (parent, CPU seconds of the process and of its reaped children)."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # The process has ended in the meantime.
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _CLOCK_TICKS
    return found


def tree_cpu_seconds(root: int, without: Collection[int]) -> float:
    """Return CPU seconds of a process and all its descendants, without the trees of `without`."""
    processes = _processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    total, left = 0.0, [root]
    while left:
        pid = left.pop()
        if pid in processes and pid not in without:
            total += processes[pid][1]
            left += children.get(pid, [])
    return total


def busy_seconds() -> float:
    """Return CPU seconds of the whole machine, without idle time and I/O wait."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / _CLOCK_TICKS


class Meter:
    """Use `with Meter(…) as meter: …`, then `meter.figures(rows)`. Spark's CPU includes this process, its JVM and its
    Python workers."""

    def __init__(self, broker: int | None, brokers: Collection[int]) -> None:
        self._broker = broker
        self._brokers = brokers

    def _now(self) -> tuple[float, float, float, float]:
        broker = cpu_seconds(self._broker) if self._broker else 0.0
        return time.monotonic(), tree_cpu_seconds(os.getpid(), self._brokers), broker, busy_seconds()

    def __enter__(self) -> Meter:
        os.sync()  # flush the writes of the previous measurement first
        self._begun = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self._spent = [after - before for before, after in zip(self._begun, self._now(), strict=True)]

    def figures(self, rows: int) -> dict[str, float]:
        """Return rows per second, CPU microseconds per row of Spark and of the broker, and the others' share of the
        machine."""
        wall, spark, broker, busy = self._spent
        return {
            "rows_per_s": rows / wall,
            "spark_cpu_us_per_row": spark / rows * 1e6,
            "broker_cpu_us_per_row": broker / rows * 1e6,
            "others_percent": max(0.0, busy - spark - broker) / (wall * CORES) * 100,
        }
