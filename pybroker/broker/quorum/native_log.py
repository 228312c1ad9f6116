"""Implements `MetadataLog` with the native node of this broker. Contains the node's listener and its transport."""

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


class PortRefusedError(Exception):
    """A node's port refuses connections, so its process is dead."""


class UnreachableNodeError(Exception):
    """A node did not answer."""


Send = Callable[[QuorumRequest], Awaitable[bytes]]
"""Sends a request of the quorum and returns the response's body. Raises PortRefusedError, UnreachableNodeError."""


class NodeParts(NamedTuple):
    """A node with its listener and transport."""

    native: MetadataQuorum
    node_id: int
    send: Send
    barrier: bytes
    """A record without effect, for `confirm`."""
    image: Callable[[], ClusterImage]
    """Returns the image after the last batch that the listener got."""
    snapshots: SnapshotLimits


class NativeMetadataLog:
    """The metadata log of one node; used on the loop's thread."""

    def __init__(self, parts: NodeParts, on_fatal: Callable[[FatalError], None]) -> None:
        self._native, self._node_id, self._send, self._barrier = parts[:4]
        self._loop = asyncio.get_running_loop()
        self._node = QuorumNode(self._native, self, self._carry_out, on_fatal, self._loop)
        self._cutter = SnapshotCutter(parts.image, self._node.write_snapshot, parts.snapshots)
        self._listener: LogListener | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._pieces: list[Sequence[bytes]] = []
        self._snapshot_ms = -1
        self._closed = False
        self.commits = CommitLatency()
        """Latency of the proposals that this node has committed."""

    @property
    def full_refusals(self) -> int:
        """Number of writes that failed since the start because the disk was full."""
        return self._node.room.refusals

    def listen(self, listener: LogListener) -> None:
        """Set the only listener and begin to deliver."""
        self._listener = listener
        self._node.start()

    @property
    def node(self) -> QuorumNode:
        """The node on this loop."""
        return self._node

    async def answer(self, api_key: int, api_version: int, body: bytes, *, at_once: bool = False) -> bytes:
        """Return the response to another node's request. Raises ValueError if the body is not a request of the
        quorum."""
        return await self._node.answer(api_key, api_version, body, at_once=at_once)

    def status(self) -> QuorumStatus:
        """Return what this node knows of the quorum."""
        return self._node.status()

    # --- MetadataLog --------------------------------------------------------------------------------------------------

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records. Return their end when they are committed."""
        begun = self._loop.time()
        try:
            offset = await self._node.propose(epoch, records)
        except ProposalError as error:
            raise NotLeaderError(maybe_committed=error.maybe_committed) from error
        self.commits.add(self._loop.time() - begun)
        return offset + len(records)

    async def confirm(self, epoch: int) -> None:
        """Commit a record without effect, which only the current leader can do."""
        await self.propose(epoch, [self._barrier])

    def port_refused(self, node_id: int) -> None:
        """Report the refused connection to the node."""
        self._native.port_refused(node_id)

    def resign(self) -> None:
        """Let another node lead, if this node is the leader."""
        self._node.resign()

    async def close(self) -> None:
        """Stop the node. Proposals that are not committed fail."""
        if self._closed:
            return
        self._closed = True
        for task in self._sending:
            task.cancel()
        await self._cutter.close()
        try:
            await self._node.stop()
        except NativeError as problem:
            log.error("cannot close the metadata log: %s", problem)

    # --- QuorumListener -----------------------------------------------------------------------------------------------

    def snapshot_began(self, start: SnapshotStart) -> None:
        """Begin to collect the snapshot's records."""
        self._pieces, self._snapshot_ms = [], start.timestamp_ms

    def snapshot_loaded(self, records: list[bytes]) -> None:
        """Collect records of the snapshot."""
        self._pieces.append(records)

    async def snapshot_ended(self, end: SnapshotEnd) -> None:
        """Pass the snapshot to the listener, unless it has no records, as after formatting."""
        pieces, self._pieces = self._pieces, []
        if pieces and self._listener is not None:
            await self._listener.snapshot(SnapshotPosition(end.end_offset, end.epoch), pieces)
        self._cutter.replaced(self._snapshot_ms)

    def committed(self, batch: CommittedRecords) -> None:
        """Pass a batch to the listener."""
        if self._listener is not None:
            self._listener.committed(CommittedBatch(batch.end_offset, batch.epoch, batch.records))
            self._cutter.committed(batch.timestamp_ms, batch.records)

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        """Pass the leader to the listener."""
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
