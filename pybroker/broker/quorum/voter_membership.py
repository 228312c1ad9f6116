"""Stores on disk whether this node was a voter of the metadata log. A voter that an administrator has removed must not
offer itself again."""

from __future__ import annotations

from pathlib import Path

from pybroker.files import write_atomically
from pybroker.native import Uuid
from pybroker.native_quorum import QuorumStatus

FILE = "quorum-membership"
"""Name of the file in the directory of the metadata log."""
VOTER, REMOVED = "voter", "removed"


class VoterMembership:
    """The membership of one node, identified by its broker id and directory id."""

    def __init__(self, log_dir: Path, node_id: int, directory_id: Uuid) -> None:
        self._path = log_dir / FILE
        self._key = node_id, directory_id
        self._kept = self._path.read_text() if self._path.exists() else ""
        self._seen: tuple[bool, int] | None = None
        """Whether the voter set in the log contains the node, and the end of the log when this was first seen."""

    @property
    def removed(self) -> bool:
        """Whether this node was a voter and was removed."""
        return self._kept == REMOVED

    @property
    def noted(self) -> bool:
        """Whether the file says that this node is a voter, as the log does."""
        return self._kept == VOTER and self._seen is not None and self._seen[0]

    def observe(self, status: QuorumStatus) -> bool:
        """Process a status of the node, and return whether it is a voter.

        A voter set takes effect before it is committed, and a new leader may truncate it. Therefore the file is written
        only when the log is committed up to the end at which the voter set was first seen.
        """
        votes = self._key in {(voter.node_id, voter.directory_id) for voter in status.voters}
        if self._seen is None or self._seen[0] != votes:
            self._seen = votes, status.log_end
        if status.high_watermark >= self._seen[1] > 0:
            state = VOTER if votes else REMOVED
            if state != self._kept and (votes or self._kept == VOTER):
                write_atomically(self._path, state.encode())
                self._kept = state
        return votes
