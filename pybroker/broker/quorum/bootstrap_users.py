"""Users that exist before the first start of a metadata quorum. They are in a file in `metadata.log.dir` of the
founding broker. The first controller of the cluster writes them into the metadata log."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pybroker.broker.quorum.loader import ImageChange
from pybroker.errors import StartError
from pybroker.files import read_bounded, write_atomically

FILE = "bootstrap-users.json"
BYTES_MAX = 16 * 1024 * 1024

Users = dict[str, dict[str, str]]
"""Stored SCRAM credentials by user and mechanism."""


def read_users(log_dir: Path) -> Users:
    """Return the users of the file; none if there is no file. Raises StartError."""
    path = log_dir / FILE
    try:
        return msgspec.json.decode(read_bounded(path, BYTES_MAX), type=Users)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as problem:
        raise StartError(f"{path} cannot be read: {problem}. Remove it, and add the users again") from None


def write_users(log_dir: Path, users: Users) -> None:
    """Replace the file; create a missing directory."""
    log_dir.mkdir(parents=True, exist_ok=True)
    write_atomically(log_dir / FILE, msgspec.json.encode(users, order="sorted"))


class BootstrapUsers:
    """The users of this broker's file, until the metadata log has them."""

    def __init__(self, log_dir: Path) -> None:
        """Read the file. Raises StartError."""
        self._path = log_dir / FILE
        self.users = read_users(log_dir)

    def observe(self, change: ImageChange) -> None:
        """When the cluster has begun, remove the file, because it contains credentials."""
        if self.users and change.after.features.metadata_version is not None:
            self.users = {}
            self._path.unlink(missing_ok=True)
