"""Memory, CPU and file descriptors of this process, under the names of Prometheus' client libraries."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from pybroker.broker.observability.metric import Metric

_STARTED = time.time()
_STATM = Path("/proc/self/statm")


def _resident_bytes() -> float:
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_seconds() -> float:
    times = os.times()
    return round(times.user + times.system, 2)


def _open_descriptors() -> float:
    return len(os.listdir("/proc/self/fd"))


def process_metrics() -> list[Metric]:
    """Return the metrics of this process. Resident memory and open descriptors need /proc."""
    found = [
        Metric("process_cpu_seconds_total", "User and system CPU time of this process.", _cpu_seconds, kind="counter"),
        Metric("process_start_time_seconds", "Start time of this process in seconds of Unix time.", lambda: _STARTED),
        Metric(
            "process_max_fds",
            "Limit of open file descriptors of this process (ulimit -n).",
            lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
    ]
    if _STATM.exists():
        found += [
            Metric("process_resident_memory_bytes", "Memory of this process that is in RAM.", _resident_bytes),
            Metric("process_open_fds", "Open file descriptors of this process.", _open_descriptors),
        ]
    return found
