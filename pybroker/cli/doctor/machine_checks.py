"""Checks the machine: limits of the process, memory, the clock.

Some facts come from /proc and /sys of Linux; on other systems those checks are skipped.
"""

from __future__ import annotations

import ctypes
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from pybroker.cli.doctor.finding import Finding, bad, ok, warn

OPEN_FILES = "open files"
SWAP = "swapping"
HUGE_PAGES = "huge pages"
CLOCK = "clock"

FILES_A_PARTITION = 4
"""Open files per partition: the active segment's log and two indexes, and another file while the segment is rolled or
flushed."""
FILES_BESIDES = 1_000
FILES_ENOUGH = 65_536
SWAPPINESS_MAX = 10
AHEAD_S_MAX = 300.0
"""If a file's modification time is this far in the future, the clock was changed."""
EARLIEST_S = 1_735_689_600.0
"""The start of 2025: if the clock shows an earlier time, it was never set."""

STA_UNSYNC = 0x0040
"""adjtimex(2): the clock is not synchronized."""


class _Timex(ctypes.Structure):
    """`struct timex` up to `status`, and space for the remaining fields."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


def open_files(
    settings: Mapping[str, str], partitions: int, limit: int | None = None, system: Path = Path("/proc/sys/fs/nr_open")
) -> Iterator[Finding]:
    """Check the limit of open files. `limit` is the hard limit of the process, which the broker uses; None: read the
    limit of this process. `system` is the kernel's limit, which replaces the value "none"."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    if hard == resource.RLIM_INFINITY:
        try:
            hard = int(system.read_text())
        except (OSError, ValueError):
            yield ok(OPEN_FILES, "no limit")
            return
    connections = int(settings.get("max.connections", "10000"))
    needed = FILES_BESIDES + min(connections, 1_000_000) + FILES_A_PARTITION * partitions
    advice = "raise LimitNOFILE= of the service, --ulimit nofile= of the container, or /etc/security/limits.conf"
    says = f"at most {hard:,} open files (ulimit -Hn)"
    if hard < needed:
        wanted = f"{connections:,} connections (max.connections) and {partitions:,} partitions may need {needed:,}"
        yield bad(OPEN_FILES, f"{says}; {wanted}", f"{advice}; or lower max.connections")
    elif hard < FILES_ENOUGH:
        yield warn(OPEN_FILES, f"{says}; a growing broker needs {FILES_ENOUGH:,}", advice)
    else:
        yield ok(OPEN_FILES, says)


def memory(proc: Path = Path("/proc"), sys_root: Path = Path("/sys")) -> Iterator[Finding]:
    """Check whether the kernel may swap out a broker's memory, or give it huge pages."""
    swappiness = _number(proc / "sys/vm/swappiness")
    swap_kib = _swap_kib(proc / "meminfo")
    if swap_kib is not None and swappiness is not None:
        if swap_kib and swappiness > SWAPPINESS_MAX:
            says = (
                f"swap is enabled and vm.swappiness is {swappiness}: a busy disk can push the broker's memory to swap"
            )
            yield warn(SWAP, says, "sysctl -w vm.swappiness=1, and make it permanent in /etc/sysctl.d")
        else:
            yield ok(SWAP, f"vm.swappiness {swappiness}" if swap_kib else "swap is disabled")
    huge = _text(sys_root / "kernel/mm/transparent_hugepage/enabled")
    if huge:
        chosen = huge.partition("[")[2].partition("]")[0]
        if chosen == "always":
            says = (
                "transparent huge pages are `always`: buffers take up to 2 MiB each, and memory compaction stalls "
                "threads"
            )
            advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, at each boot"
            yield warn(HUGE_PAGES, says, advice)
        else:
            yield ok(HUGE_PAGES, f"transparent huge pages: {chosen}")


def clock(
    written: Iterable[Path], now_s: float | None = None, unsteered: Callable[[], bool | None] | None = None
) -> Iterator[Finding]:
    """Check whether the clock is right, because retention, searches by time and deadlines depend on it.

    `written`: files of the broker; their modification times must be in the past. `unsteered`: returns whether the clock
    is not synchronized, None if unknown. If `unsteered` is not given, the kernel is queried.
    """
    now = time.time() if now_s is None else now_s
    if now < EARLIEST_S:
        yield bad(
            CLOCK,
            f"the clock shows {time.strftime('%Y-%m-%d', time.gmtime(now))}",
            "set the clock, and run chrony or ntpd",
        )
        return
    newest = max(((_changed_s(path), path) for path in written), default=(0.0, Path()), key=lambda each: each[0])
    if newest[0] > now + AHEAD_S_MAX:
        ahead = newest[0] - now
        says = f"{newest[1]} has a modification time {ahead:,.0f} s in the future: the clock was set back"
        yield bad(
            CLOCK,
            says,
            "correct the clock before the start: new records would have older timestamps than existing ones",
        )
        return
    is_unsteered = (unsteered or _unsteered)()
    if is_unsteered:
        says = "the clock is not synchronized (adjtimex): the clocks of brokers and clients drift apart"
        yield warn(CLOCK, says, "run chrony, ntpd or systemd-timesyncd")
    else:
        yield ok(CLOCK, "synchronized according to the kernel" if is_unsteered is False else "plausible")


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _unsteered() -> bool | None:
    """Return whether the clock is not synchronized; None if unknown. Needs no privilege."""
    if sys.platform != "linux":
        return None
    try:
        timex = _Timex()
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return bool(timex.status & STA_UNSYNC)


def _swap_kib(meminfo: Path) -> int | None:
    text = _text(meminfo) or ""
    line = next((each for each in text.splitlines() if each.startswith("SwapTotal:")), None)
    return None if line is None else int(line.split()[1])


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and text.strip().isdigit() else None


def _text(path: Path) -> str | None:
    """Return the text of a file; None if this kernel lacks it or denies access."""
    try:
        return path.read_text()
    except OSError:
        return None
