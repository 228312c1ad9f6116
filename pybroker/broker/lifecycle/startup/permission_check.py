"""Finds files that other users of the machine can write or read. Settings and data control the broker; the data
directory has records, SCRAM keys and passwords.

The start only logs a warning, because some containers and test machines have such permissions on purpose.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from pybroker.files import GROUP_UMASKS

_SHOWN = 3
_GROUP, _OTHERS = 0o070, 0o007


def exposed(settings_file: str | None, log_dirs: Sequence[str]) -> list[str]:
    """Return a sentence for each existing file or directory that every user can write."""
    places = [] if settings_file is None else [(Path(settings_file), "settings", "o-w")]
    places += [(Path(directory), "data directory", "o-rwx") for directory in log_dirs]
    return [
        f"the {what} {place} can be changed by every user of this machine; chmod {change} {place}"
        for place, what, change in places
        if _mode(place) & stat.S_IWOTH
    ]


def readable(log_dirs: Sequence[str], group_access: str) -> Iterator[str]:
    """Yield a sentence for each non-empty data directory that users can read beyond `log.dirs.group.access`. An older
    release, Apache Kafka or the operator may have created it: the umask of `keep_private` only affects new files.
    """
    for directory in map(Path, log_dirs):
        classes = _who_enters(directory) & GROUP_UMASKS[group_access]
        open_to_them = sorted(_open_entries(directory, classes)) if classes else []
        if open_to_them:
            more = ", …" if len(open_to_them) > _SHOWN else ""
            who = "every user of this machine" if classes & _OTHERS else "the group of its owner"
            change = "o-rwx" if group_access != "none" else "go-rwx"
            yield (
                f"{directory}: {who} can read {len(open_to_them)} of its files and directories "
                f"({', '.join(open_to_them[:_SHOWN])}{more}); chmod -R {change} {directory}"
            )


def _who_enters(directory: Path) -> int:
    """Return the classes of users that can reach files in the directory, as permission bits. If other users cannot
    enter a parent directory, its files are safe from them. The group bits of parents are ignored, because each parent
    may have another group.
    """
    mode = _mode(directory)
    others = mode & stat.S_IXOTH and all(_mode(parent) & stat.S_IXOTH for parent in directory.absolute().parents)
    return (_GROUP if mode & stat.S_IXGRP else 0) | (_OTHERS if others else 0)


def _open_entries(directory: Path, classes: int) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # The file was removed in the meantime.
                if entry.stat(follow_symlinks=False).st_mode & classes & (stat.S_IRGRP | stat.S_IROTH):
                    yield entry.name


def _mode(place: Path) -> int:
    """Return the mode, or 0 if it cannot be read. The code that opens the file later reports that problem."""
    try:
        return place.stat().st_mode
    except OSError:
        return 0
