"""Facts about this machine and its Python that matter to a broker."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from pybroker.version import version

FILES = (
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/fs/file-nr",
    "/proc/sys/net/core/somaxconn",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/cpu.stat",
)
"""Files with statistics of Linux; missing ones are skipped."""


def machine() -> dict[str, Any]:
    """Return the facts for JSON. Environment variables are omitted, because in containers they often contain secrets.
    """
    figures = {}
    for each in FILES:
        try:
            figures[each] = Path(each).read_text().splitlines()
        except OSError:  # This is not Linux, or this kernel lacks the file.
            continue
    return {
        "pybroker": version(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "timezone": time.strftime("%Z"),
        "system": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "python": sys.version,
        "executable": sys.executable,
        "packages": dict(
            sorted((each.name, each.version) for each in importlib.metadata.distributions() if each.name)
        ),
        "figures": figures,
    }
