"""The metadata log of a quorum. The leader proposes records, and every node gets the committed records in order.

Everything runs on the loop's thread. The calls of a listener are in the order of the log. The listener learns that this
node leads an epoch only after it has got all records before this epoch. A proposal is answered only after the listener
has got its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class CommittedBatch(msgspec.Struct, frozen=True):
    """The records of one proposal; none if the batch contains only control records of the quorum."""

    end_offset: int
    """The offset after its last record."""
    epoch: int
    """Epoch of the leader that appended the batch."""
    records: Sequence[bytes]


class SnapshotPosition(msgspec.Struct, frozen=True):
    """A snapshot's position: it has all records before `offset`."""

    end_offset: int
    epoch: int


class NotLeaderError(KafkaError):
    """This node does not lead the requested epoch."""

    def __init__(self, *, maybe_committed: bool) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "This broker is no longer controller.")
        self.maybe_committed = maybe_committed
        """Whether this node appended the records. They are not committed, but a later leader may still commit them."""


class CommitLatency(msgspec.Struct):
    """Commit latency of the leader's changes: count and total since the start."""

    count: int = 0
    total_ms: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one change."""
        self.count += 1
        self.total_ms += seconds * 1000


class LogListener(Protocol):
    """The owner of a node's copy of the log."""

    async def snapshot(self, position: SnapshotPosition, pieces: Sequence[Sequence[bytes]]) -> None:
        """Replace all state by the records of a snapshot. No batch arrives before this call returns."""
        ...

    def committed(self, batch: CommittedBatch) -> None:
        """Process the next committed batch."""
        ...

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        """Process a change of the leader; None if the leader is unknown."""
        ...


class MetadataLog(Protocol):
    """One node of the quorum."""

    def listen(self, listener: LogListener) -> None:
        """Set the only listener and begin to deliver."""
        ...

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records as the leader of an epoch. Return their end when they are committed. Raises NotLeaderError."""
        ...

    async def confirm(self, epoch: int) -> None:
        """Wait until it is certain that this node still led the epoch at some time after the call began. Raises
        NotLeaderError.
        """
        ...

    def port_refused(self, node_id: int) -> None:
        """Report that a node's port refuses connections, so its process is dead."""
        ...

    def resign(self) -> None:
        """Let another node lead, if this node is the leader."""
        ...

    async def close(self) -> None:
        """Stop. Proposals that are not committed fail."""
        ...
