"""Facts about processes from the kernel (Linux): parents, for tests that kill a process with all its descendants by
their ids; and the run time of threads."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path


def parent_of(pid: int) -> int:
    """Return the parent's id. Raises OSError if there is no such process."""
    # The name, in brackets, may contain spaces and brackets.
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def command_of(pid: int) -> str:
    """Return the command line, with spaces between its words. Raises OSError if there is no such process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def tree(root: int, spared: Callable[[str], bool] = lambda _: False) -> list[int]:
    """Return a process and all its descendants, without those whose command line `spared` accepts and their
    descendants."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                children[parent_of(int(entry.name))].append(int(entry.name))
            except OSError:
                continue  # The process ended in the meantime.
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        try:
            if spared(command_of(pid)):
                continue
        except OSError:
            continue
        found.append(pid)
        todo += children[pid]
    return found


def data_threads(pid: int) -> list[list[int]]:
    """Return for each data thread of a broker (proc(5), `schedstat`): nanoseconds that it ran, nanoseconds that it
    waited for a CPU, and how often it ran. Raises OSError if there is no such process."""
    threads = sorted(Path(f"/proc/{pid}/task").iterdir())
    found = [each for each in threads if (each / "comm").read_text().startswith("data-")]
    return [[int(figure) for figure in (each / "schedstat").read_text().split()] for each in found]


def kill_all(pids: list[int]) -> None:
    """Send SIGKILL to the processes. A process that has already ended is no error."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
