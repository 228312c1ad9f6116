"""Submits the ISR changes that local leaders propose to the controller, and passes the answers to the partitions.

The partition gets each final answer: the change was written or refused. If the outcome is unknown, the proposal is
retried. Until the outcome is known, the partition uses the union of both ISRs (KIP-497).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine
from typing import Any

from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import AlterIsr, IsrChange, IsrOutcome
from pybroker.errors import KafkaError
from pybroker.native import IsrProposal, NativeBroker, Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

BATCH_MAX = 1_000
"""Limit of partitions in one request."""
PAUSE_S = 0.05
PAUSE_MAX_S = 2.0
REFUSED_PAUSE_S = 0.2
TIMEOUT_MS = 10_000
SAID_ANEW_S = 60.0
"""Seconds between two log lines about the same partition. If a follower may not join the ISR, each of its fetches
causes another proposal.
"""

UNDECIDED = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH})
"""Errors after which the broker submits the proposal again, to another controller or under its new broker epoch."""


class IsrProposals:
    """The ISR proposals of one broker; used on the loop's thread."""

    def __init__(
        self,
        native: NativeBroker,
        controller: ControllerClient,
        broker_id: int,
        broker_epoch: Callable[[], int],
        *,
        bring: Callable[[IsrProposal], Coroutine[Any, Any, None] | None] = lambda _: None,
        leaving: Callable[[], Container[int]] = tuple,
    ) -> None:
        """`bring` sends a joining replica the data that is not in the log, before the replica is proposed. It returns
        None if there is no such data. `leaving` returns the brokers that are about to stop, as far as this broker
        knows."""
        self._native = native
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._bring = bring
        self._leaving = leaving
        self._bringing: set[asyncio.Task[None]] = set()
        self._waiting: list[IsrProposal] = []
        self.failed_updates = 0
        """Proposals that the controller refused, or that could not be submitted."""
        self._said: set[tuple[Uuid, int]] = set()
        """Partitions for which a refusal was logged since `_said_since`."""
        self._said_since = -SAID_ANEW_S
        """Loop time at which `_said` was last emptied."""
        self._work: asyncio.Task[None] | None = None
        self._judge: asyncio.Task[None] | None = None

    def start(self, lag_max_ms: Callable[[], int]) -> None:
        """Start to check for lagging followers, twice within the allowed lag."""
        self._judge = asyncio.create_task(self._judge_followers(lag_max_ms), name="isr-judge")

    async def stop(self) -> None:
        """Stop submitting proposals."""
        tasks = [*self._bringing, *(task for task in (self._judge, self._work) if task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def proposed(self, proposal: IsrProposal) -> None:
        """Submit a local leader's proposal to change its ISR."""
        leaving = self._leaving()
        if any(member.broker_id in leaving for member in proposal.isr):
            # The controller would refuse this proposal. Until its refusal arrived, appends would wait for the stopping
            # broker.
            identity = proposal.topic_id, proposal.partition
            self._native.isr.refused(*identity, proposal.leader_epoch, proposal.version)
            return
        if (work := self._bring(proposal)) is None:
            self._propose(proposal)
            return
        task = asyncio.create_task(self._propose_after(work, proposal), name="isr-bring")
        self._bringing.add(task)
        task.add_done_callback(self._bringing.discard)

    async def _propose_after(self, work: Coroutine[Any, Any, None], proposal: IsrProposal) -> None:
        """Submit the proposal when the joining replica has its data. Only proposals for this replica wait for that."""
        try:
            await work
        except KafkaError as error:
            self._say_it_stays(proposal, str(error))
            await asyncio.sleep(REFUSED_PAUSE_S)
            # Submit nothing now; the follower's next fetch causes another proposal.
            identity = proposal.topic_id, proposal.partition
            self._native.isr.refused(*identity, proposal.leader_epoch, proposal.version)
        else:
            self._propose(proposal)

    def _propose(self, proposal: IsrProposal) -> None:
        self._waiting.append(proposal)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._ask(), name="isr")

    async def _judge_followers(self, lag_max_ms: Callable[[], int]) -> None:
        while True:
            await asyncio.sleep(lag_max_ms() / 2000)
            await asyncio.get_running_loop().run_in_executor(None, self._native.isr.judge, lag_max_ms())

    async def _ask(self) -> None:
        pause = PAUSE_S
        while self._waiting:
            batch = self._waiting[:BATCH_MAX]
            changes = tuple(
                IsrChange(
                    record.topic_id,
                    record.partition,
                    record.leader_epoch,
                    tuple((member.broker_id, member.broker_epoch) for member in record.isr),
                    record.version,
                )
                for record in batch
            )
            try:
                event = AlterIsr(self._broker_id, self._broker_epoch(), changes)
                answer = await self._controller.submit(event, TIMEOUT_MS)
            except KafkaError as error:
                self.failed_updates += len(batch)
                if error.code not in UNDECIDED:
                    log.error("the controller refused an ISR change: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_S)
                continue
            pause = PAUSE_S
            del self._waiting[: len(batch)]
            for proposal, outcome in zip(batch, answer.reply, strict=True):
                self._settle(proposal, outcome)

    def _settle(self, proposal: IsrProposal, outcome: IsrOutcome) -> None:
        isr, partition = self._native.isr, (proposal.topic_id, proposal.partition)
        same_leadership = outcome.leader_epoch == proposal.leader_epoch and outcome.leader == self._broker_id
        if outcome.error_code in (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION) and same_leadership:
            # INVALID_UPDATE_VERSION: the state has changed. An earlier attempt at this proposal, whose answer was lost,
            # may have changed it.
            isr.written(*partition, outcome.leader_epoch, outcome.isr, outcome.version)
            return
        if outcome.error_code != ErrorCode.INVALID_UPDATE_VERSION:
            self._say_it_stays(proposal, error_name(outcome.error_code))
            self.failed_updates += 1
            isr.refused(*partition, proposal.leader_epoch, proposal.version)

    def _say_it_stays(self, proposal: IsrProposal, reason: str) -> None:
        """Log at INFO once per interval and partition, and otherwise at DEBUG."""
        now = asyncio.get_running_loop().time()
        if now >= self._said_since + SAID_ANEW_S:
            self._said_since = now
            self._said.clear()
        partition = proposal.topic_id, proposal.partition
        level = logging.DEBUG if partition in self._said else logging.INFO
        self._said.add(partition)
        log.log(level, "the ISR is unchanged partition=%s-%d: %s", *partition, reason)
