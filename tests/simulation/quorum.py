"""The metadata log of a simulated cluster: `MetadataLog` as `native/quorum` promises it, without its messages.

Commits need a majority and take time. A leader may not know yet that it is deposed. Of what it has appended and not
committed, its successor keeps some prefix: those records are committed after all, the others vanish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from random import Random
from typing import Any, NamedTuple

from pybroker.broker.metadata.records.frames import encode_record
from pybroker.broker.quorum.quorum_log import CommittedBatch, LogListener, NotLeaderError
from pybroker.protocol import messages as m
from tests.simulation.loop import Process, SimulatedLoop

ELECTION_S = (0.05, 0.6)
CHECK_QUORUM_S = 1.0


class Appended(NamedTuple):
    """A batch that is not committed."""

    epoch: int
    records: Sequence[bytes]
    proposal: asyncio.Future[int] | None
    log: SimulatedLog | None


class SimulatedQuorum:
    """The replicated log and the elections."""

    def __init__(self, loop: SimulatedLoop, random: Random, size: int, trace: Callable[[str], None]) -> None:
        self.loop = loop
        self.random = random
        self.majority = size // 2 + 1
        self.trace = trace
        self.batches: list[CommittedBatch] = []
        self.end = 0
        self.epoch = 0
        self.leader: int | None = None
        self.logs: dict[int, SimulatedLog] = {}
        self.isolated: set[int] = set()
        self.tail: list[Appended] = []
        self.slow_s = 0.0
        """How long the disks of a majority may take for a write."""
        self._electing = False
        self._outside = copy_context()
        self.on_commit: Callable[[CommittedBatch], None] = lambda batch: None

    def _later(self, delay_s: float, call: Callable[..., object], *args: Any) -> None:
        """Call something that no process does."""
        self.loop.call_later(delay_s, call, *args, context=self._outside)

    def node(self, node_id: int, process: Process) -> SimulatedLog:
        """Return the log of a node's new process."""
        log = self.logs[node_id] = SimulatedLog(self, node_id, process)
        self.wake()
        return log

    def working(self) -> list[int]:
        """The nodes that reach each other."""
        return [
            node_id
            for node_id, log in sorted(self.logs.items())
            if not log.process.dead and not log.closed and node_id not in self.isolated
        ]

    def wake(self) -> None:
        """Elect a leader if there is none that works, and commit what waits."""
        if self.leader in self.working():
            if len(self.working()) < self.majority:
                self._later(CHECK_QUORUM_S, self._step_down, self.epoch)
            self._later(self.random.uniform(0.0005, 0.01), self._commit, self.epoch)
            for log in self.logs.values():
                log.catch_up()
                log.hear(self.epoch, self.leader)
        elif not self._electing and len(self.working()) >= self.majority:
            self._electing = True
            self._later(self.random.uniform(*ELECTION_S), self._elect_any)

    def died(self, node_id: int) -> None:
        """Take note that a node's process is dead. What it has appended may be on other disks."""
        if self.leader == node_id:
            self.leader = None
        self.wake()

    def resigned(self) -> None:
        """Take note that the leader has given up its epoch."""
        self.leader = None
        self.wake()

    def _step_down(self, epoch: int) -> None:
        """Let a leader without a majority resign."""
        if epoch == self.epoch and self.leader is not None and len(self.working()) < self.majority:
            self.logs[self.leader].hear(epoch, None, at_once=True)
            self.leader = None
            self.wake()

    def _elect_any(self) -> None:
        self._electing = False
        able = self.working()
        if self.leader in able or len(able) < self.majority:
            self.wake()
            return
        self.elect(self.random.choice(able))

    def elect(self, node_id: int) -> None:
        """Begin an epoch."""
        kept = self.random.randint(0, len(self.tail)) if self.tail else 0
        survivors, lost = self.tail[:kept], self.tail[kept:]
        self.epoch, self.leader = self.epoch + 1, node_id
        self.trace(f"epoch {self.epoch} leader {node_id}: {len(survivors)} undecided batches stay, {len(lost)} vanish")
        # The proposals of earlier leaders get their answer when those learn of the epoch.
        self.tail = [one._replace(proposal=None, log=None) for one in survivors]
        self.tail.append(Appended(self.epoch, (), None, None))
        for log in self.logs.values():
            if log.node_id != node_id:
                log.hear(self.epoch, node_id)
        self._later(self.random.uniform(0.001, 0.1), self._commit, self.epoch)

    def append(self, one: Appended) -> None:
        """Append as the leader."""
        self.tail.append(one)
        delay = self.random.uniform(0.0003, 0.006)
        if self.slow_s and self.random.random() < 0.3:
            delay = self.random.uniform(0, self.slow_s)
        self._later(delay, self._commit, self.epoch)

    def _commit(self, epoch: int) -> None:
        """Commit everything that the leader has appended, if a majority works."""
        able = self.working()
        if epoch != self.epoch or self.leader not in able or len(able) < self.majority:
            return
        while self.tail:
            one = self.tail.pop(0)
            if not one.records and one.epoch == self.epoch:
                # The new leader has everything of earlier epochs before it learns that it leads.
                self.logs[self.leader].lead(len(self.batches), self.epoch)
            self.end += max(1, len(one.records))
            self.batches.append(CommittedBatch(self.end, one.epoch, tuple(one.records)))
            self.on_commit(self.batches[-1])
            if one.log is not None and one.proposal is not None:
                one.log.decided(len(self.batches), self.end, one.proposal)
        for log in self.logs.values():
            log.catch_up()

    def depose(self, *, away: bool = False) -> None:
        """Let the leader lose its epoch; with `away` it learns it only later."""
        leader = self.leader
        if leader is None:
            return
        others = [node_id for node_id in self.working() if node_id != leader]
        if len(others) + (leader in self.working()) < self.majority or not others:
            return
        if not away:
            self.logs[leader].hear(self.epoch, None, at_once=True)
        self.elect(self.random.choice(others))


class SimulatedLog:
    """One node's log in one process: a `MetadataLog`."""

    def __init__(self, quorum: SimulatedQuorum, node_id: int, process: Process) -> None:
        self._quorum = quorum
        self.node_id = node_id
        self.process = process
        self.closed = False
        self._listener: LogListener | None = None
        self._delivered = 0
        self._heard = 0, -2
        """The newest epoch that this process knows, and its leader (-1: none)."""
        self._lead: tuple[int, int] | None = None
        """How many batches come before the epoch that this node leads, and that epoch."""
        self._leads = -1
        self._decided: list[tuple[int, int, asyncio.Future[int]]] = []
        self._open: list[asyncio.Future[int]] = []

    # --- calls of the quorum ------------------------------------------------------------------------------------------

    def _way(self) -> float:
        random = self._quorum.random
        return random.uniform(0.0002, 0.004) if random.random() < 0.9 else random.uniform(0.004, 0.3)

    def catch_up(self) -> None:
        """Schedule the delivery of committed batches."""
        if self.node_id not in self._quorum.isolated and not self.process.dead:
            delay = 0.0 if self._quorum.leader == self.node_id else self._way()
            self.process.later(delay, self._deliver, len(self._quorum.batches))

    def lead(self, before: int, epoch: int) -> None:
        self._lead = before, epoch

    def decided(self, batches: int, end: int, proposal: asyncio.Future[int]) -> None:
        self._decided.append((batches, end, proposal))

    def hear(self, epoch: int, leader: int | None, *, at_once: bool = False) -> None:
        """Schedule the news of an epoch's leader. A node that is cut off gets no news. It stops leading after
        CHECK_QUORUM_S without a majority."""
        if self.process.dead or leader == self.node_id:
            return
        if self.node_id in self._quorum.isolated:
            self.process.later(self._quorum.random.uniform(0.3, CHECK_QUORUM_S), self._tell, self._leads, None)
            return
        delay = 0.0 if at_once else self._way()
        self.process.later(delay, self._tell, epoch, leader)

    def cut(self) -> None:
        """Learn nothing any more."""
        self.hear(-1, None)

    def _tell(self, epoch: int, leader: int | None) -> None:
        number = -1 if leader is None else leader
        if self._listener is None or epoch < 0 or (epoch, number) == self._heard or epoch < self._heard[0]:
            return
        if leader is None and (epoch, self.node_id) != self._heard:
            return  # Only a leader that resigns learns that an epoch has no leader.
        if self._heard == (epoch, -1):
            # A leader that has resigned does not lead its epoch again.
            return
        self._heard = epoch, number
        if leader is None and (self._quorum.epoch, self._quorum.leader) == (epoch, self.node_id):
            self._quorum.resigned()
        if leader != self.node_id:
            self._leads = -1
            if self._lead is not None and self._lead[1] <= epoch:
                self._lead = None
        # Also what this node has proposed in an earlier epoch that it led.
        self._fail()
        self._listener.leader_changed(epoch, leader)

    def _fail(self) -> None:
        for proposal in self._open:
            if not proposal.done():
                proposal.set_exception(NotLeaderError(maybe_committed=True))
        self._open.clear()

    def _deliver(self, until: int) -> None:
        listener = self._listener
        if listener is None or self.closed:
            return
        while self._delivered < until or self._lead is not None:
            if self._lead is not None and self._delivered >= self._lead[0]:
                (_, epoch), self._lead = self._lead, None
                if epoch == self._quorum.epoch:
                    self._leads = epoch
                    self._tell(epoch, self.node_id)
            if self._delivered >= until:
                break
            batch = self._quorum.batches[self._delivered]
            self._delivered += 1
            listener.committed(batch)
            while self._decided and self._decided[0][0] <= self._delivered:
                _, end, proposal = self._decided.pop(0)
                if not proposal.done():
                    proposal.set_result(end)

    # --- MetadataLog --------------------------------------------------------------------------------------------------

    def listen(self, listener: LogListener) -> None:
        self._listener = listener
        self.catch_up()
        if self._quorum.leader is not None:
            self.hear(self._quorum.epoch, self._quorum.leader)

    async def propose(self, epoch: int, records: Sequence[bytes]) -> int:
        await asyncio.sleep(self._quorum.random.uniform(0, 0.001))
        if self._leads != epoch or self.closed:
            raise NotLeaderError(maybe_committed=False)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._open.append(future)
        if (self._quorum.epoch, self._quorum.leader) == (epoch, self.node_id):
            self._quorum.append(Appended(epoch, tuple(records), future, self))
        # Otherwise another leader is elected, and no majority takes the records.
        try:
            return await future
        finally:
            if future in self._open:
                self._open.remove(future)

    async def confirm(self, epoch: int) -> None:
        await self.propose(epoch, [encode_record(m.NoOpRecord())])

    def port_refused(self, node_id: int) -> None:
        del node_id

    def resign(self) -> None:
        if self._quorum.leader == self.node_id:
            self._quorum.depose()

    async def close(self) -> None:
        self.closed = True
        self._fail()
