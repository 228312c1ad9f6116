"""Stacks of this process's threads and of its loop's tasks. Any thread may call these functions. They need no answer
from the loop, because it may hang."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import threading
import traceback
from pathlib import Path

TASKS_MAX = 2_000
FRAMES_MAX = 30
TURNS_MAX = 5
"""Limit of attempts to copy the loop's set of tasks. A copy fails if the set changes at the same time."""


def python_threads() -> str:
    """Return each thread that has run Python code, with its stack; the innermost call comes last."""
    names = {each.ident: f"{each.name} (kernel's id {each.native_id})" for each in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame, FRAMES_MAX))
        parts.append(f"Thread {names.get(ident, f'{ident}, not made by Python')}\n{stack}")
    return "\n".join(parts)


def tasks(loop: asyncio.AbstractEventLoop) -> str:
    """Return each task, with the line at which it waits."""
    all_tasks: list[asyncio.Task[object]] = []
    for _ in range(TURNS_MAX):
        with contextlib.suppress(RuntimeError):
            all_tasks = sorted(asyncio.all_tasks(loop), key=lambda each: each.get_name())
            break
    out = io.StringIO()
    print(f"{len(all_tasks)} tasks", file=out)
    for task in all_tasks[:TASKS_MAX]:
        print(file=out)
        task.print_stack(limit=FRAMES_MAX, file=out)
    return out.getvalue()


def kernel_threads(process: int | str = "self", proc: Path = Path("/proc")) -> str:
    """Return each Linux thread, including those of native code: name, state, seconds of CPU, and where it waits in the
    kernel. Empty on other systems."""
    lines = []
    ticks = os.sysconf("SC_CLK_TCK")
    try:
        threads = sorted((proc / str(process) / "task").iterdir(), key=lambda each: int(each.name))
    except OSError:
        return ""
    for thread in threads:
        with contextlib.suppress(OSError, IndexError):  # The thread has ended in the meantime.
            before, _, after = (thread / "stat").read_text().rpartition(")")
            fields = after.split()
            seconds = (int(fields[11]) + int(fields[12])) / ticks
            waits = (thread / "wchan").read_text() or "-"
            lines.append(f"{thread.name:>8} {fields[0]} {seconds:10.2f} s  {before.partition('(')[2]:<16} {waits}")
    return "\n".join(lines) + "\n"
