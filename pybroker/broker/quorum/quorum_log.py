"""The metadata log of a quorum: records are proposed by its leader, and every node gets the committed ones in order.

Everything runs on the loop's thread. The order of a listener's calls is the log's: that this node leads an epoch comes
after all records before that epoch, and a proposal is answered after the call with its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class CommittedBatch(msgspec.Struct, frozen=True):
    """Records that one proposal appended together; none if the batch is one of the quorum's own."""

    end_offset: int
    """The offset after its last record."""
    epoch: int
    """Epoch of the leader that appended it."""
    records: Sequence[bytes]


class SnapshotPosition(msgspec.Struct, frozen=True):
    """The end of the log that a snapshot contains."""

    end_offset: int
    epoch: int


class NotLeaderError(KafkaError):
    """This node does not lead the epoch."""

    def __init__(self, *, maybe_committed: bool) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "This broker is no longer controller.")
        self.maybe_committed = maybe_committed
        """The records were appended: a successor may still commit them."""


class LogListener(Protocol):
    """The owner of a node's copy of the log."""

    def snapshot(self, position: SnapshotPosition, pieces: Sequence[Sequence[bytes]]) -> None:
        """Replace everything by the records of a snapshot."""
        ...

    def committed(self, batch: CommittedBatch) -> None:
        """Take the next committed batch."""
        ...

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        """Note the leader of an epoch; None if it is unknown."""
        ...


class MetadataLog(Protocol):
    """One node of the quorum."""

    def listen(self, listener: LogListener) -> None:
        """Set the only listener and begin to deliver."""
        ...

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records as the leader of an epoch; return their end when they are committed. Raises NotLeaderError."""
        ...

    async def confirm(self, epoch: int) -> None:
        """Return when it is certain that this node led the epoch after the call began. Raises NotLeaderError."""
        ...

    def port_refused(self, node_id: int) -> None:
        """Note that a node's port refuses connections: its process is dead."""
        ...

    def resign(self) -> None:
        """Let another node lead, if this one does."""
        ...

    async def close(self) -> None:
        """Stop; undecided proposals fail."""
        ...
