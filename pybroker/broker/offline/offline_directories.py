"""Data directories of an offline command: locks against brokers (ours and Apache Kafka's), and access to
`meta.properties`."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pybroker.broker.metadata.metadata_store import SQLITE_FILE
from pybroker.errors import StartError
from pybroker.files import fsync_directory, read_bounded, write_atomically

META_PROPERTIES = "meta.properties"
LOCK_FILE = ".lock"
PROPERTIES_BYTES_MAX = 64 << 10
PUT_ASIDE = SQLITE_FILE + ".migrated"


@contextlib.contextmanager
def locked(directories: Sequence[Path]) -> Iterator[None]:
    """Lock the existing directories. Raises StartError if one is in use.

    It takes two locks on one file: flock against brokers of pybroker, and a POSIX record lock against brokers on the
    JVM.
    """
    with contextlib.ExitStack() as held:
        for directory in directories:
            if directory.is_dir():
                held.enter_context(_lock(directory))
        yield


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    try:
        fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    except OSError as problem:
        raise StartError(f"cannot lock {directory}: {problem.strerror}") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartError(f"the data directory {directory} is in use by a running broker. Stop it first") from None
        yield
    finally:
        os.close(fd)


def read_properties_of(directory: Path) -> dict[str, str] | None:
    """Return the settings in `meta.properties`; None if the file does not exist. Raises StartError if it is damaged."""
    path = directory / META_PROPERTIES
    try:
        content = read_bounded(path, PROPERTIES_BYTES_MAX)
        if len(content) > PROPERTIES_BYTES_MAX:
            raise StartError(f"{path} is damaged: more than {PROPERTIES_BYTES_MAX} bytes")
        lines = content.decode("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise StartError(f"cannot read {path}: {problem}") from None
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith(("#", "!")))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def write_properties_of(directory: Path, properties: Mapping[str, str]) -> None:
    """Replace `meta.properties` atomically and durably."""
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    write_atomically(directory / META_PROPERTIES, text.encode())


def put_store_aside(directory: Path) -> None:
    """Rename the metadata store of a single broker after its content has moved; it stays as a backup."""
    for ending in ("", "-wal", "-shm"):
        path = directory / f"{SQLITE_FILE}{ending}"
        if path.exists():
            path.rename(directory / f"{PUT_ASIDE}{ending}")
    fsync_directory(directory)
