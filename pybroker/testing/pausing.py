"""Child processes that stand still for a while."""

from __future__ import annotations

import os
import signal


def pause(pid: int) -> None:
    """Stops a child of this process, and returns when all of its threads stand still: on a loaded machine the signal is
    there before they do. It goes on with SIGCONT."""
    os.kill(pid, signal.SIGSTOP)
    if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
        # What it finds is left for who waits for the end of the process.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
