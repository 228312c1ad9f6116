"""A metadata quorum in memory: nodes that share one log, and a leader that the test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pybroker.broker.quorum.quorum_log import CommittedBatch, LogListener, NotLeaderError


class MemoryQuorum:
    """The log and its leader. Proposals are committed at once, unless `stuck`."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        self.end = 0
        self.epoch = 0
        self.leader: int | None = None
        self.nodes: dict[int, MemoryLog] = {}
        self.stuck = False
        """Whether proposals are appended but not committed; the next leader commits them or not."""

    def node(self, node_id: int) -> MemoryLog:
        """Return a node; it replaces an earlier node with the same id."""
        self.nodes[node_id] = MemoryLog(self, node_id)
        return self.nodes[node_id]

    def elect(self, node_id: int | None) -> None:
        """Begin a new epoch with this leader."""
        self.epoch, self.leader = self.epoch + 1, node_id
        for node in self.nodes.values():
            node.fail_proposals()
        if node_id is not None:
            # As in the quorum, the leader learns about its election before its first record is committed.
            self._tell()
            self.append([])
        else:
            self._tell()

    def append(self, records: Sequence[bytes]) -> int:
        """Commit a batch."""
        self.end += max(1, len(records))
        self.batches.append(CommittedBatch(self.end, self.epoch, tuple(records)))
        for node in self.nodes.values():
            node.deliver()
        return self.end

    def _tell(self) -> None:
        for node in self.nodes.values():
            node.tell()


class MemoryLog:
    """One node: a `MetadataLog`."""

    def __init__(self, quorum: MemoryQuorum, node_id: int) -> None:
        self._quorum = quorum
        self._node_id = node_id
        self._listener: LogListener | None = None
        self._delivered = 0
        self._waiting: list[asyncio.Future[int]] = []
        self.proposed: list[Sequence[bytes]] = []
        self.stuck = asyncio.Event()
        """Set when a proposal waits."""

    def listen(self, listener: LogListener) -> None:
        self._listener = listener
        self.deliver()
        self.tell()

    def deliver(self) -> None:
        if self._listener is None:
            return
        while self._delivered < len(self._quorum.batches):
            batch = self._quorum.batches[self._delivered]
            self._delivered += 1
            self._listener.committed(batch)

    def tell(self) -> None:
        if self._listener is not None and self._quorum.epoch:
            self._listener.leader_changed(self._quorum.epoch, self._quorum.leader)

    def _leads(self, epoch: int) -> bool:
        return (self._quorum.epoch, self._quorum.leader) == (epoch, self._node_id)

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        assert records
        await asyncio.sleep(0)
        if not self._leads(epoch):
            raise NotLeaderError(maybe_committed=False)
        self.proposed.append(records)
        if self._quorum.stuck:
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            self.stuck.set()
            return await future
        return self._quorum.append(records)

    async def confirm(self, epoch: int) -> None:
        await asyncio.sleep(0)
        if not self._leads(epoch):
            raise NotLeaderError(maybe_committed=False)

    def fail_proposals(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(NotLeaderError(maybe_committed=True))
        self._waiting.clear()

    def port_refused(self, node_id: int) -> None:
        if self._quorum.leader == node_id:
            self._quorum.elect(self._node_id)

    def resign(self) -> None:
        if self._quorum.leader == self._node_id:
            self._quorum.elect(next((one for one in self._quorum.nodes if one != self._node_id), None))

    async def close(self) -> None:
        self._listener = None
        self._quorum.nodes.pop(self._node_id, None)
