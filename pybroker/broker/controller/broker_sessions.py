"""The sessions of brokers with the controller of a metadata quorum: they show which brokers are alive, and up to which
offset each broker has applied the metadata log.

A new controller grants every broker a full session. It fences a broker whose session ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pybroker.broker.cluster.quorum_events import BrokerHeartbeat
from pybroker.broker.controller.internal_events import BrokerSessionEnded
from pybroker.broker.controller.offset_relay import OffsetRelay
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

CHECKS = 8
"""Number of checks for expired sessions within one session timeout, while a broker is silent."""


class BrokerSessions:
    """The sessions of one controller; on the loop's thread."""

    def __init__(
        self,
        broker_id: int,
        session_s: float,
        report: Callable[[BrokerSessionEnded], None],
        offsets: AppliedOffsets,
        relay: OffsetRelay,
    ) -> None:
        """`broker_id` is the controller's own broker; its session never ends. The `relay` sends the `offsets` to other
        brokers."""
        self._offsets = offsets
        self._relay = relay
        self._broker_id = broker_id
        self._session_s = session_s
        self._report = report
        self._epochs: dict[int, int] = {}
        self._heard: dict[int, float] = {}
        """Time of the last heartbeat, by broker."""
        self._applied: dict[int, int] = {}
        """Broker → the offset up to which it has applied the metadata log. The offset never decreases and is kept when
        the broker is fenced."""
        self._waiting: dict[int, list[tuple[int, asyncio.Future[None]]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self, image: ClusterImage) -> None:
        """Grant every registered broker a session."""
        now = asyncio.get_running_loop().time()
        for broker in image.brokers.values():
            self._epochs[broker.broker_id] = broker.epoch
            self._heard[broker.broker_id] = now
        # The previous controller may not have relayed the offsets that these brokers report now.
        self._relay.expect(image.brokers, image.offset)
        self._task = asyncio.create_task(self._run(), name="broker-sessions")

    async def stop(self) -> None:
        """Stop, and cancel all waits. Decisions already made remain valid, and brokers apply them later.

        A decision may begin another wait after this call. That wait is cancelled at once, since no heartbeat would end
        it.
        """
        self._stopped = True
        self._relay.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiting in self._waiting.values():
            for _, future in waiting:
                future.cancel()

    def observe(self, delta: ImageDelta, leaders: Iterable[int], offset: int) -> None:
        """Update the sessions after a durable decision. `leaders`: the brokers that the decision made leaders of
        partitions. `offset`: the end of the decision in the metadata log."""
        now = asyncio.get_running_loop().time()
        for broker in delta.brokers:
            self._epochs[broker.broker_id] = broker.epoch
            self._heard[broker.broker_id] = now
        for broker_id in delta.lost_brokers:
            self._epochs.pop(broker_id, None)
            self._relay.lost(broker_id)
            self._heard.pop(broker_id, None)
            for _, future in self._waiting.pop(broker_id, ()):
                if not future.done():
                    future.set_result(None)
        for leader in leaders:
            self._relay.expect((leader,), offset)
            self._relay.applied(leader, self._applied.get(leader, -1))

    def heartbeat(self, event: BrokerHeartbeat) -> None:
        """Process a heartbeat. Raises KafkaError STALE_BROKER_EPOCH for an earlier broker epoch."""
        if self._epochs.get(event.broker_id) != event.broker_epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "This broker epoch is not registered.")
        self._heard[event.broker_id] = asyncio.get_running_loop().time()
        self.has_applied(event.broker_id, event.applied)

    def has_applied(self, broker_id: int, offset: int) -> None:
        """Note the offset up to which a broker has applied the metadata log."""
        if offset <= self._applied.get(broker_id, -1):
            return
        self._applied[broker_id] = offset
        self._offsets.note(broker_id, offset)
        self._relay.applied(broker_id, offset)
        left = []
        for awaited, future in self._waiting.pop(broker_id, ()):
            if awaited > offset:
                left.append((awaited, future))
            elif not future.done():
                future.set_result(None)
        if left:
            self._waiting[broker_id] = left

    def applied(self, broker_ids: Iterable[int], offset: int) -> list[asyncio.Future[None]]:
        """Return a future for each broker. It completes when the broker has applied the log up to `offset`, or is
        fenced."""
        return [self._when_applied(broker_id, offset) for broker_id in broker_ids]

    def _when_applied(self, broker_id: int, offset: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if broker_id not in self._epochs or self._applied.get(broker_id, -1) >= offset:
            future.set_result(None)
        elif self._stopped:
            future.cancel()
        else:
            self._waiting.setdefault(broker_id, []).append((offset, future))
        return future

    def _next_check(self, now: float) -> float:
        """Return the time of the next check. While all brokers send heartbeats, no check is due until one of them is
        silent for half a session."""
        heard = (heard for broker_id, heard in self._heard.items() if broker_id != self._broker_id)
        return max(min(heard, default=now) + self._session_s / 2, now + self._session_s / CHECKS)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            pause_s = self._next_check(before) - before
            await asyncio.sleep(pause_s)
            now = loop.time()
            late = now - before - pause_s
            if late > self._session_s / CHECKS:
                # This process was paused. Heartbeats that arrived in the meantime are still unread.
                self._heard = {broker_id: heard + late for broker_id, heard in self._heard.items()}
            for broker_id, heard in list(self._heard.items()):
                if broker_id != self._broker_id and now - heard >= self._session_s:
                    log.warning("broker session expired broker=%d", broker_id)
                    # Report again after another timeout: the event may have been refused, or have had no effect.
                    self._heard[broker_id] = now
                    self._report(BrokerSessionEnded(broker_id, self._epochs[broker_id]))
