"""`metadata.sealed` beside the embedded store: the store's content has moved to ZooKeeper or to a metadata log, and
brokers must not open it.

The migration writes this file before brokers may use the copy. Therefore the store and its copy are never usable at the
same time.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pybroker.errors import StartError
from pybroker.files import read_bounded, write_atomically

FILE_NAME = "metadata.sealed"
SEAL_BYTES_MAX = 64 * 1024


IN_LOG = "none, metadata.store=quorum"
"""Value of `connect` if the metadata is in a metadata log. Releases that know only ZooKeeper show this value in their
error."""


class MigrationMarker(msgspec.Struct):
    """The place where the metadata is now. `migration`: a random word that `/migration` in ZooKeeper also contains."""

    connect: str
    cluster_id: str
    migration: str
    version: int = 1

    @property
    def in_log(self) -> bool:
        """Whether the metadata has moved to a metadata log."""
        return self.connect == IN_LOG

    @property
    def place(self) -> str:
        """The place where the metadata is now, for messages."""
        return "a metadata log" if self.in_log else "ZooKeeper"

    @property
    def settings(self) -> str:
        """The settings with which the broker starts on the new metadata."""
        if self.in_log:
            return "metadata.store=quorum"
        return f"metadata.store=zookeeper and zookeeper.connect={self.connect}"


def read_marker(directory: Path) -> MigrationMarker | None:
    """Return the marker in the store's directory; None if it does not exist. Raises StartError if the file is
    unreadable."""
    path = directory / FILE_NAME
    try:
        return msgspec.json.decode(read_bounded(path, SEAL_BYTES_MAX), type=MigrationMarker)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise StartError(f"cannot read {path}: {problem}") from None


def write_marker(directory: Path, seal: MigrationMarker) -> None:
    """Write the marker; it is durable on return."""
    write_atomically(directory / FILE_NAME, msgspec.json.encode(seal))


def refuse_migrated(directory: Path) -> None:
    """Raise StartError if the content of the directory's store has moved elsewhere."""
    seal = read_marker(directory)
    if seal is not None:
        raise StartError(f"the metadata of {directory} has moved to {seal.place}. Start with {seal.settings}")
