"""Pausing of child processes."""

from __future__ import annotations

import os
import signal


def pause(pid: int) -> None:
    """Stop a child of this process (SIGSTOP) and return when all its threads have stopped, which takes time on a loaded
    machine. SIGCONT resumes it.
    """
    os.kill(pid, signal.SIGSTOP)
    if hasattr(os, "waitid"):  # macOS has it since Python 3.13
        # WNOWAIT leaves the exit status for the caller that waits for the process.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
