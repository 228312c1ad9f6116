"""This broker's node of the metadata quorum, on the event loop.

The native node writes, elects and replicates in its own threads. This object carries its requests and responses,
completes proposals, and hands committed records to the listener in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol

from pybroker.errors import FatalError, KafkaError
from pybroker.native_quorum import (
    CommittedRecords,
    MetadataQuorum,
    ProposalOutcome,
    QuorumEndpoint,
    QuorumFailure,
    QuorumLeader,
    QuorumReplica,
    QuorumRequest,
    QuorumResponse,
    QuorumRoom,
    QuorumStatus,
    QuorumVoters,
    QuorumWarning,
    SnapshotEnd,
    SnapshotRecords,
    SnapshotStart,
)
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

TURN_S = 0.01
"""Seconds after which the delivery of records pauses for other work of the event loop."""
REPEAT_S = 60.0
"""Seconds between warnings while writes keep failing on a full disk."""


class QuorumListener(Protocol):
    """Keeps the image. If a method raises, the broker stops, because the image would miss records."""

    def snapshot_began(self, start: SnapshotStart) -> None:
        """Discard the image. The records of a snapshot follow."""

    def snapshot_loaded(self, records: list[bytes]) -> None:
        """Add records of the snapshot."""

    async def snapshot_ended(self, end: SnapshotEnd) -> None:
        """Make the image from the snapshot's records; it is the image at the end of the snapshot. Until this returns,
        nothing else is delivered."""

    def committed(self, batch: CommittedRecords) -> None:
        """Apply a batch. The batch is empty if it has only control records of the quorum."""

    def leader_changed(self, epoch: int, leader: int | None) -> None:
        """Process a change of the leader. If this node is the leader, everything before its epoch has been applied."""

    def voters_changed(self, voters: Sequence[QuorumReplica], endpoints: Sequence[QuorumEndpoint]) -> None:
        """Process a change of the voters and their known addresses."""


class ProposalError(KafkaError):
    """Raised if this node does not know whether a proposal or a change of voters was committed."""

    def __init__(self, code: int, maybe_committed: bool) -> None:
        super().__init__(code, "its outcome is unknown" if maybe_committed else None)
        self.maybe_committed = maybe_committed
        """True if the records were appended. Another leader may then still commit them."""


class LogRoom:
    """Tracks whether the disk of the metadata log has room, and logs when it is full."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self.refusals = 0
        """Number of writes that failed since the start because the disk was full."""
        self._since: float | None = None
        self._warned = -REPEAT_S
        self._announced = False

    def observe(self, problem: str | None) -> None:
        """Note a failed write, or (None) that the disk has room again."""
        now = self._clock()
        if problem is not None:
            self.refusals += 1
            self._since = now
            if now - self._warned >= REPEAT_S:
                self._warned, self._announced = now, True
                log.warning(
                    "metadata log full: %s. This broker neither votes nor leads the quorum, and learns no metadata, "
                    "until there is room (docs: When a disk is full)",
                    problem,
                )
        elif self._since is not None:
            if self._announced:
                log.info("metadata log has room again full_seconds=%.0f", now - self._since)
            self._since, self._announced = None, False


class QuorumNode:
    """The native node, its proposals and its requests."""

    def __init__(
        self,
        native: MetadataQuorum,
        listener: QuorumListener,
        send: Callable[[QuorumRequest], None],
        on_fatal: Callable[[FatalError], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`send` sends a request without waiting, and reports `receive_response` or `request_failed` later."""
        self._native = native
        self._listener = listener
        self._send = send
        self._on_fatal = on_fatal
        self._loop = loop
        self._numbers = count(1)
        self._proposals: dict[int, asyncio.Future[ProposalOutcome]] = {}
        self._requests: dict[int, asyncio.Future[bytes]] = {}
        self._fd: int | None = None
        self._deliveries: deque[Any] = deque()
        """Outputs about records that the listener has not processed yet, in order."""
        self._loading: asyncio.Task[None] | None = None
        """Whether the listener is making the image of a snapshot."""
        self._continues = False
        """Whether the next iteration of the loop continues the delivery."""
        self._failed = False
        self._voters_followers: list[Callable[[], None]] = []
        self.room = LogRoom(loop.time)

    def start(self) -> None:
        """Start to process the node's output, beginning with the image."""
        self._fd = self._native.fileno()
        self._loop.add_reader(self._fd, self._take)
        self._loop.call_soon(self._take)

    async def stop(self) -> None:
        """Write all data to disk and stop. Proposals that are not committed end with NOT_CONTROLLER."""
        try:
            await asyncio.to_thread(self._native.stop)
        finally:
            self._take()
            while (self._deliveries or self._loading is not None) and not self._failed:
                if self._loading is not None:
                    await asyncio.gather(self._loading, return_exceptions=True)
                else:
                    self._deliver()
            if self._fd is not None:
                self._loop.remove_reader(self._fd)
                self._fd = None
            for waiting in self._requests.values():
                waiting.cancel()

    def follow_voters(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the voters in the log change, committed or not."""
        self._voters_followers.append(changed)

    def status(self) -> QuorumStatus:
        """Return what this node knows of the quorum."""
        return self._native.status()

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records in one batch, as the leader of `epoch`. Return the offset of the first record.

        On return the records are committed, and the listener has applied them. Raises ProposalError if that is not
        certain.
        """
        outcome = await self._decided(lambda number: self._native.propose(number, epoch, records))
        return outcome.base_offset

    async def add_voter(self, voter: QuorumReplica, endpoints: Sequence[QuorumEndpoint]) -> None:
        """Turn an observer into a voter. Raises ProposalError, with code REQUEST_TIMED_OUT if the observer has not
        caught up."""
        await self._decided(lambda number: self._native.add_voter(number, voter, endpoints))

    async def remove_voter(self, voter: QuorumReplica) -> None:
        """Turn a voter into an observer. Raises ProposalError."""
        await self._decided(lambda number: self._native.remove_voter(number, voter))

    def resign(self, successor: int | None = None) -> None:
        """Let another voter lead, if this node is the leader."""
        self._native.resign(successor)

    def answer_fetches(self) -> None:
        """If this node is the leader, answer all fetches that wait for records, because the responses carry new applied
        offsets."""
        self._native.answer_fetches()

    async def answer(self, api_key: int, api_version: int, body: bytes, *, at_once: bool = False) -> bytes:
        """Return the body of the response to another node's request. With `at_once`, a Fetch does not wait for records.
        Raises ValueError if the body is not a request of the quorum.
        """
        handle = next(self._numbers)
        response: asyncio.Future[bytes] = self._loop.create_future()
        self._native.receive_request(handle, api_key, api_version, body)
        if at_once:
            self._native.answer_fetches()
        self._requests[handle] = response
        try:
            return await response
        finally:
            del self._requests[handle]

    def receive_response(self, correlation: int, body: bytes) -> None:
        """Process the response to a request that was sent."""
        self._native.receive_response(correlation, body)

    def request_failed(self, correlation: int, refused: bool) -> None:
        """Report that a request has no response. `refused` is true if the node's port refused the connection."""
        self._native.request_failed(correlation, refused)

    async def write_snapshot(self, end_offset: int, timestamp_ms: int, chunks: Iterable[Sequence[bytes]]) -> bool:
        """Write a snapshot of the image at `end_offset`, a chunk of records at a time. Return whether a snapshot was
        needed.

        `timestamp_ms`: the timestamp of the last batch before `end_offset`. The event loop encodes the chunks, and a
        thread writes them. Raises NativeError if the disk is full; the previous snapshot then remains.
        """
        snapshot = await asyncio.to_thread(self._native.begin_snapshot, end_offset, timestamp_ms)
        if snapshot is None:
            return False
        for chunk in chunks:
            await asyncio.to_thread(snapshot.append, chunk)
        await asyncio.to_thread(snapshot.finish)
        return True

    async def _decided(self, begin: Callable[[int], None]) -> ProposalOutcome:
        number = next(self._numbers)
        decided: asyncio.Future[ProposalOutcome] = self._loop.create_future()
        begin(number)
        self._proposals[number] = decided
        try:
            outcome = await decided
        finally:
            del self._proposals[number]
        if outcome.error_code != ErrorCode.NONE:
            raise ProposalError(outcome.error_code, outcome.maybe_committed)
        return outcome

    def _take(self) -> None:
        if self._fd is None:
            return
        for item in self._native.take():
            if isinstance(item, QuorumRequest):
                self._send(item)
            elif isinstance(item, QuorumResponse):
                complete(self._requests.get(item.handle), item.body)
            elif isinstance(item, QuorumFailure):
                self._on_fatal(FatalError(f"the metadata log failed: {item.message}"))
            else:
                self._deliveries.append(item)
        if not self._continues:
            self._deliver()

    def _go_on(self) -> None:
        self._continues = False
        self._deliver()

    def _deliver(self) -> None:
        """Pass outputs to the listener in order. Pause when other work of the loop has waited long enough."""
        end = self._loop.time() + TURN_S
        while self._deliveries and self._loading is None and not self._failed:
            item = self._deliveries.popleft()
            if isinstance(item, SnapshotEnd):
                self._loading = self._loop.create_task(self._listener.snapshot_ended(item), name="metadata-snapshot")
                self._loading.add_done_callback(self._loaded)
                return
            try:
                self._take_one(item)
            except Exception as problem:
                self._fail(problem)
            if self._deliveries and self._loop.time() >= end and not self._continues:
                self._continues = True
                self._loop.call_soon(self._go_on)
                return

    def _loaded(self, loading: asyncio.Task[None]) -> None:
        self._loading = None
        if loading.cancelled():
            return
        problem = loading.exception()
        if problem is not None:
            self._fail(problem)
        self._deliver()

    def _fail(self, problem: BaseException) -> None:
        """Stop the broker, because after any failure the image lacks a record."""
        self._failed = True
        log.error("metadata record failed to apply", exc_info=problem)
        self._on_fatal(FatalError("a committed metadata record cannot be applied"))
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            self._fd = None

    def _take_one(self, item: Any) -> None:
        if isinstance(item, CommittedRecords):
            self._listener.committed(item)
        elif isinstance(item, ProposalOutcome):
            complete(self._proposals.get(item.proposal), item)
        elif isinstance(item, QuorumLeader):
            self._listener.leader_changed(item.epoch, item.leader)
        elif isinstance(item, QuorumVoters):
            self._listener.voters_changed(item.voters, item.endpoints)
            for changed in self._voters_followers:
                changed()
        elif isinstance(item, SnapshotRecords):
            self._listener.snapshot_loaded(item.records)
        elif isinstance(item, SnapshotStart):
            self._listener.snapshot_began(item)
        elif isinstance(item, QuorumWarning):
            log.warning("metadata log: %s", item.message)
        elif isinstance(item, QuorumRoom):
            self.room.observe(item.problem)


def complete(waiting: asyncio.Future[Any] | None, value: Any) -> None:
    """Complete a future, unless its caller has cancelled it."""
    if waiting is not None and not waiting.done():
        waiting.set_result(value)
