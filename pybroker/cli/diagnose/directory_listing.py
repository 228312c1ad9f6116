"""Contents of a data directory: names, sizes and times of files, and the contents of small text files. Records are not
read."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pybroker.cli.doctor.disk_checks import in_use, mount_of, nearest

LINES_MAX = 200_000
"""Limit of lines in one directory's listing: enough for ten files in each of 20,000 partitions."""
TEXT_BYTES_MAX = 256 << 10
TEXTS = frozenset(
    (
        "meta.properties",
        "partition.metadata",
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    )
)
"""The brokers' own files, which contain only lines of names and numbers."""
TEXTS_BYTES_MAX = 32 << 20


def disk(directory: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> dict[str, Any]:
    """Return size, free space and file system, for JSON. Raises OSError."""
    there = nearest(directory)
    room = os.statvfs(there)
    mount = mount_of(there, mountinfo)
    return {
        "directory": str(directory),
        "exists": directory.is_dir(),
        "in_use": in_use(directory),
        "bytes": room.f_blocks * room.f_frsize,
        "bytes_free": room.f_bavail * room.f_frsize,
        "inodes": room.f_files,
        "inodes_free": room.f_favail,
        "mount": None if mount is None else [mount.point, mount.kind, *sorted(mount.options)],
    }


def listing(directory: Path) -> Iterator[str]:
    """Yield a line for each file: permissions, owner, bytes, modification time (UTC), path."""
    for number, (path, about) in enumerate(_walk(directory)):
        if number == LINES_MAX:
            yield f"… truncated: only the first {LINES_MAX:,} files are listed\n"
            return
        if isinstance(about, OSError):
            yield f"? {path}: {about.strerror}\n"
            continue
        changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(about.st_mtime))
        owner = f"{about.st_uid}:{about.st_gid}"
        yield f"{stat.filemode(about.st_mode)} {owner:<11} {about.st_size:>14} {changed} {path}\n"


def texts(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield (path below the directory, content) of the small text files, with TEXTS_BYTES_MAX bytes in total."""
    left = TEXTS_BYTES_MAX
    for path, about in _walk(directory):
        if path.name not in TEXTS or isinstance(about, OSError) or not stat.S_ISREG(about.st_mode):
            continue
        if about.st_size > TEXT_BYTES_MAX or about.st_size > left:
            yield str(path), f"(omitted: {about.st_size} bytes)\n"
            continue
        try:
            text = (directory / path).read_text("utf-8", "backslashreplace")
        except OSError as problem:
            text = f"(cannot read: {problem.strerror})\n"
        left -= about.st_size
        yield str(path), text


def _walk(directory: Path) -> Iterator[tuple[Path, os.stat_result | OSError]]:
    """Yield every file and folder below, by path, without following links. A running broker may have removed some in
    the meantime."""
    problems: list[OSError] = []
    for folder, folders, files in os.walk(directory, onerror=problems.append):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            try:
                about: os.stat_result | OSError = path.lstat()
            except FileNotFoundError:
                continue
            except OSError as problem:
                about = problem
            yield path.relative_to(directory), about
        for each in problems:
            if not isinstance(each, FileNotFoundError):
                yield Path(os.path.relpath(each.filename, directory)), each
        problems.clear()
