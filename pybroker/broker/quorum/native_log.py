"""`MetadataLog` on this broker's node of the quorum: its listener, its transport, and the promotion of observers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.quorum.quorum_log import (
    CommitLatency,
    CommittedBatch,
    LogListener,
    NotLeaderError,
    SnapshotPosition,
)
from pybroker.broker.quorum.quorum_node import ProposalError, QuorumNode
from pybroker.broker.quorum.snapshot_cutter import SnapshotCutter, SnapshotLimits
from pybroker.errors import FatalError
from pybroker.native import NativeError
from pybroker.native_quorum import (
    CommittedRecords,
    MetadataQuorum,
    QuorumEndpoint,
    QuorumReplica,
    QuorumRequest,
    QuorumStatus,
    SnapshotEnd,
    SnapshotStart,
)

log = logging.getLogger(__name__)

PROMOTION_S, JOINING_S = 0.2, 0.02
"""Interval at which a leader looks for observers that may become voters; the shorter one while one of them fetches."""


class PortRefusedError(Exception):
    """A node's port refuses connections: its process is dead."""


class UnreachableNodeError(Exception):
    """A node did not answer."""


Send = Callable[[QuorumRequest], Awaitable[bytes]]
"""Sends a request of the quorum and returns the response's body. Raises PortRefusedError, UnreachableNodeError."""


class NodeParts(NamedTuple):
    """A node and what it needs."""

    native: MetadataQuorum
    node_id: int
    send: Send
    barrier: bytes
    """A record without effect, for `confirm`."""
    voters: frozenset[int]
    """A leader makes these nodes voters when they have caught up."""
    image: Callable[[], ClusterImage]
    """Returns the image as of the last batch that the listener got."""
    snapshots: SnapshotLimits


class NativeMetadataLog:
    """One node; on the loop's thread."""

    def __init__(self, parts: NodeParts, on_fatal: Callable[[FatalError], None]) -> None:
        self._native, self._node_id, self._send, self._barrier, self._voters = parts[:5]
        self._loop = asyncio.get_running_loop()
        self._node = QuorumNode(self._native, self, self._carry_out, on_fatal, self._loop)
        self._cutter = SnapshotCutter(parts.image, self._node.write_snapshot, parts.snapshots)
        self._listener: LogListener | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._pieces: list[Sequence[bytes]] = []
        self._snapshot_ms = -1
        self._promotion: asyncio.Task[None] | None = None
        self._closed = False
        self.commits = CommitLatency()
        """The proposals that this node has committed."""

    @property
    def full_refusals(self) -> int:
        """Number of writes that failed since the start because the disk was full."""
        return self._node.room.refusals

    def listen(self, listener: LogListener) -> None:
        """Set the only listener and begin to deliver."""
        self._listener = listener
        self._node.start()

    async def answer(self, api_key: int, api_version: int, body: bytes) -> bytes:
        """Return the response to another node's request. Raises ValueError for what is no message of the quorum."""
        return await self._node.answer(api_key, api_version, body)

    def status(self) -> QuorumStatus:
        """Return what this node knows of the quorum."""
        return self._node.status()

    # --- MetadataLog --------------------------------------------------------------------------------------------------

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records; return their end when they are committed."""
        begun = self._loop.time()
        try:
            offset = await self._node.propose(epoch, records)
        except ProposalError as error:
            raise NotLeaderError(maybe_committed=error.maybe_committed) from error
        self.commits.add(self._loop.time() - begun)
        return offset + len(records)

    async def confirm(self, epoch: int) -> None:
        """Commit a record without effect: only the present leader can."""
        await self.propose(epoch, [self._barrier])

    def port_refused(self, node_id: int) -> None:
        """Pass it on."""
        self._native.port_refused(node_id)

    def resign(self) -> None:
        """Let another node lead, if this one does."""
        self._node.resign()

    async def close(self) -> None:
        """Stop; undecided proposals fail."""
        if self._closed:
            return
        self._closed = True
        self._lead(False)
        for task in self._sending:
            task.cancel()
        await self._cutter.close()
        try:
            await self._node.stop()
        except NativeError as problem:
            log.error("cannot close the metadata log: %s", problem)

    # --- QuorumListener -----------------------------------------------------------------------------------------------

    def snapshot_began(self, start: SnapshotStart) -> None:
        """Gather the snapshot's records."""
        self._pieces, self._snapshot_ms = [], start.timestamp_ms

    def snapshot_loaded(self, records: list[bytes]) -> None:
        """Gather them."""
        self._pieces.append(records)

    def snapshot_ended(self, end: SnapshotEnd) -> None:
        """Pass the snapshot on, unless it has no records, as after formatting."""
        pieces, self._pieces = self._pieces, []
        if pieces and self._listener is not None:
            self._listener.snapshot(SnapshotPosition(end.end_offset, end.epoch), pieces)
        self._cutter.replaced(self._snapshot_ms)

    def committed(self, batch: CommittedRecords) -> None:
        """Pass a batch on."""
        if self._listener is not None:
            self._listener.committed(CommittedBatch(batch.end_offset, batch.epoch, batch.records))
            self._cutter.committed(batch.timestamp_ms, batch.records)

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        """Pass the leader on."""
        self._lead(leader == self._node_id)
        if self._listener is not None:
            self._listener.leader_changed(epoch, leader)

    def voters_changed(self, voters: Sequence[QuorumReplica], endpoints: Sequence[QuorumEndpoint]) -> None:
        """Log the voters."""
        del endpoints
        log.info("voters of the metadata log: %s", ", ".join(str(voter.node_id) for voter in voters))

    # --- requests -----------------------------------------------------------------------------------------------------

    def _carry_out(self, request: QuorumRequest) -> None:
        if self._closed:
            return
        task = self._loop.create_task(self._carry(request), name=f"quorum-request-{request.peer}")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _carry(self, request: QuorumRequest) -> None:
        try:
            body = await self._send(request)
        except PortRefusedError:
            self._node.request_failed(request.correlation, True)
        except UnreachableNodeError as problem:
            log.debug("node %d does not answer the metadata quorum: %s", request.peer, problem)
            self._node.request_failed(request.correlation, False)
        else:
            self._node.receive_response(request.correlation, body)

    # --- voters -------------------------------------------------------------------------------------------------------

    def _lead(self, leads: bool) -> None:
        if leads and self._promotion is None:
            self._promotion = self._loop.create_task(self._promote(), name="quorum-voters")
        elif not leads and self._promotion is not None:
            self._promotion.cancel()
            self._promotion = None

    async def _promote(self) -> None:
        """Make configured nodes voters, one at a time (KIP-853)."""
        pause_s = JOINING_S
        while True:
            await asyncio.sleep(pause_s)
            status = self._node.status()
            missing = self._voters - {voter.node_id for voter in status.voters}
            joining = missing & {observer.node_id for observer in status.observers}
            pause_s = JOINING_S if joining else PROMOTION_S
            for observer in status.observers:
                if observer.node_id in missing and observer.caught_up_ms >= 0:
                    replica = QuorumReplica(observer.node_id, observer.directory_id)
                    try:
                        await self._node.add_voter(replica, observer.endpoints)
                        log.info("added voter node=%d directory_id=%s", observer.node_id, observer.directory_id)
                    except ProposalError as problem:
                        log.debug("node %d is no voter yet: %s", observer.node_id, problem)
                    break
