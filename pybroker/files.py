"""All file access in Python: permissions, atomic writes, bounded reads, and the lock on a data directory."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from pybroker.errors import StartError

GROUP_UMASKS = {"none": 0o077, "read": 0o027, "write": 0o007}
"""Umasks by `log.dirs.group.access`, which sets the permissions of the group of the broker's user. Other users have no
permissions."""


def keep_private(group_access: str = "none") -> None:
    """Set the umask of this process, for Python, native code and SQLite. It replaces the inherited umask.

    A data directory has records, SCRAM keys and passwords (SECURITY.md). Commands that write to a data directory call
    this first.
    """
    os.umask(GROUP_UMASKS[group_access])


def fsync_directory(path: Path) -> None:
    """Make renames and new names in `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` atomically: after a crash, it has either the whole old or the whole new content. Steps: write a
    temporary file, fsync it, rename it, fsync the directory."""
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o660)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    fsync_directory(path.parent)


def read_bounded(path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes plus one. From the additional byte, the caller sees that a file is too long without
    reading all of it."""
    return _read(os.open(path, os.O_RDONLY | os.O_CLOEXEC), limit)


def read_regular(location: str, limit: int) -> bytes:
    """Read at most `limit` bytes plus one of a file that a setting names.

    Raises OSError, also for a pipe, a device or a directory. Opening a pipe would block until a writer opens it.
    """
    fd = os.open(location, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return _read(fd, limit)


def _read(fd: int, limit: int) -> bytes:
    try:
        chunks: list[bytes] = []
        missing = limit + 1
        while missing > 0:
            chunk = os.read(fd, missing)
            if not chunk:
                break
            chunks.append(chunk)
            missing -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


class DirectoryLock:
    """An exclusive lock of one process on a data directory. The kernel releases it when the process ends, even after a
    crash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises StartError with the holder."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            who = f" (process {holder})" if holder else ""
            raise StartError(
                f"the data directory {self._path.parent} is in use by another broker{who}; "
                f"stop that one, or give this one a directory of its own with log.dirs"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Release the lock. The call may be repeated. The file stays, because removing it would allow two processes to
        lock two inodes."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
