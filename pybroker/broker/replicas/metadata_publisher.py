"""Applies committed changes of the metadata log on this broker. From each change it derives the control messages that,
with a metadata store, the controller would send to this broker.

The publisher shows a new image immediately, with one exception: clients see a partition's new leader only after that
leader has applied the change (`partition_visibility`). The publisher sends no orders about replicas before this process
has registered itself. If the controller needs the result of an order, the broker reports the result as an event. A new
controller may not have these results. Therefore the publisher repeats the pending orders in each new controller epoch;
orders are idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.broadcast import Broadcast
from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    UpdateCluster,
    UpdateMetadataRequest,
    refusal,
)
from pybroker.broker.metadata.deletion_records import DELETING
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.quorum.loader import ImageChange, MetadataLoader
from pybroker.broker.replicas.partition_visibility import PartitionVisibility
from pybroker.errors import FatalError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

APART_PARTITIONS_MIN = 1_000
"""Number of partitions from which on a thread derives this broker's first messages."""
AGAIN_S = 30.0
"""Seconds before failed orders are repeated."""


class FollowingView(ClusterView, Protocol):
    """The view that the publisher updates."""

    async def follow(self, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Show the image `after`, and apply the change that leads to it."""
        ...

    def has_applied(self, controller_epoch: int, number: int) -> None:
        """Note that this broker has applied all changes up to this number."""
        ...


class OrderResults(Protocol):
    """Receives the results of orders."""

    def take(self, order: ControlRequest, response: ControlResponse) -> bool:
        """Report the results that the controller needs. Return whether the order has to be repeated."""
        ...


class PublisherListener(Protocol):
    """The listener for the registration and the heartbeats."""

    def registered(self, broker_epoch: int) -> None:
        """Note this process's registration. The orders for the new broker epoch follow."""
        ...

    def unregistered(self) -> None:
        """Note that the registration has ended although this process runs."""
        ...

    def applied(self, offset: int) -> None:
        """Report the offset up to which this broker has applied the metadata log."""
        ...


class BrokerMetadataPublisher:
    """The publisher of one broker; used on the loop's thread."""

    def __init__(
        self,
        *,
        broker_id: int,
        incarnation: Uuid,
        between: str | None,
        loader: MetadataLoader,
        view: FollowingView,
        visibility: PartitionVisibility,
        execute: Callable[[ControlRequest], Awaitable[ControlResponse]],
        expire_fences: Callable[[int, int], Awaitable[object]],
        results: OrderResults,
        listener: PublisherListener,
        on_fatal: Callable[[FatalError], None],
    ) -> None:
        """`between` is the name of the inter-broker listener. `execute` executes a message. No fence against old
        controllers is needed, because messages follow the log's order. `expire_fences` ends the write fences of earlier
        controllers and broker epochs.
        """
        self._broker_id = broker_id
        self._incarnation = incarnation
        self._between = between
        self._loader = loader
        self._view = view
        self._visibility = visibility
        self._execute = execute
        self._expire_fences = expire_fences
        self._results = results
        self._listener = listener
        self._on_fatal = on_fatal
        self._epoch = -1
        """This process's broker epoch; -1 while it has none."""
        self._controller: int | None = None
        """The controller that clients see."""
        self._queue: deque[ImageChange] = deque()
        self._wake = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None
        self._again_due = False
        self._task: asyncio.Task[None] | None = None
        loader.follow(self._changed)
        loader.follow_leader(lambda epoch, leader: self._wake.set())
        visibility.offsets.follow(self._offsets_changed)

    def start(self) -> None:
        """Start to apply changes."""
        self._task = asyncio.create_task(self._run(), name="metadata-publisher")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop. Finish the current order, and begin no other order."""
        if self._again is not None:
            self._again.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _changed(self, change: ImageChange) -> None:
        self._queue.append(change)
        self._wake.set()

    def _offsets_changed(self) -> None:
        if self._visibility.holds:
            self._wake.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.critical("metadata changes are no longer applied: this is a bug in pybroker", exc_info=problem)
            self._on_fatal(FatalError(f"metadata changes are no longer applied: {problem!r}"))

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._apply(self._next())
                await self._show_held()
            if self._again_due:
                self._again_due = False
                await self._carry_out(list(self._pending(self._view.image)))
            await self._show_held()
            await self._show_controller()

    def _next(self) -> ImageChange:
        """Return the next change. Without a registration there are no orders, so merge all waiting changes into one."""
        change = self._queue.popleft()
        if self._epoch >= 0:
            return change
        self._visibility.note(change)
        if self._queue:
            for later in self._queue:
                self._visibility.note(later)
            change = ImageChange(change.before, self._queue[-1].after, None)
            self._queue.clear()
        return change

    async def _apply(self, change: ImageChange) -> None:
        before, after = change.before, change.after
        mine = after.brokers.get(self._broker_id)
        here = mine is not None and mine.incarnation == self._incarnation
        epoch = mine.epoch if here and mine is not None else -1
        if 0 <= self._epoch != epoch:
            self._visibility.note(change)
        messages = await self._messages(change) if here else []
        first = messages[0] if messages else None
        shown = first.change if isinstance(first, UpdateCluster) else change.delta or after
        await self._view.follow(after, shown)
        new_controller = before.controller_epoch != after.controller_epoch
        if new_controller or epoch != self._epoch:
            await self._expire_fences(after.controller_epoch, epoch)
        orders = messages[1:]
        if epoch != self._epoch:
            self._epoch = epoch
            if here:
                self._listener.registered(epoch)
            else:
                self._listener.unregistered()
            new_controller = True
        if here and new_controller:
            orders += self._pending(after)
        await self._carry_out(orders)
        self._view.has_applied(after.controller_epoch, after.offset)
        self._listener.applied(after.offset)

    async def _messages(self, change: ImageChange) -> list[ControlRequest]:
        before, after, delta = change
        broadcast = self._broadcast()
        mine = after.brokers[self._broker_id]
        if delta is None or mine.epoch != self._epoch:
            seen = before if mine.epoch == self._epoch else None

            def derive() -> list[ControlRequest]:
                messages = broadcast.introductions(after, {self._broker_id}, after.offset)[self._broker_id]
                return self._visibility.introduce(seen, after, messages)

            # In a large cluster, use a thread, because the work must not block the event loop, which serves clients.
            large = sum(len(topic.partitions) for topic in after.topics.values()) >= APART_PARTITIONS_MIN
            return await asyncio.to_thread(derive) if large else derive()
        messages = broadcast.changes(before, after, in_full(after, delta), after.offset, {self._broker_id}).get(
            self._broker_id, []
        )
        return [
            self._visibility.hold(before, after, message) if isinstance(message, UpdateMetadataRequest) else message
            for message in messages
        ]

    def _broadcast(self) -> Broadcast:
        controller = self._loader.leader[1]
        return Broadcast(-1 if controller is None else controller, self._between)

    def _pending(self, image: ClusterImage) -> Iterator[ControlRequest]:
        """Yield the orders whose results the controller may not know."""
        broadcast, here = self._broadcast(), self._broker_id
        if here not in image.brokers:
            return
        records = image.deletions.values()
        stopping = [record for record in records if record.state == DELETING and here in record.unconfirmed]
        if stopping:
            yield broadcast.stop_again(image, here, stopping)
        restore = broadcast.restore(image, here, records)
        if restore is not None:
            yield restore
        left = [(topic, epochs) for topic in image.topics.values() if (epochs := topic.left(here))]
        if left:
            yield broadcast.leave_again(image, here, left)

    async def _carry_out(self, orders: list[ControlRequest]) -> None:
        for order in orders:
            try:
                response = await self._execute(order)
            except Exception:  # The next orders must still run, and the image must be updated.
                log.exception("order failed order=%s: this is a bug in pybroker", type(order).__name__)
                response = refusal(order, int(ErrorCode.UNKNOWN_SERVER_ERROR))
            if self._results.take(order, response) and self._again is None:
                self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._repeat)

    def _repeat(self) -> None:
        self._again, self._again_due = None, True
        self._wake.set()

    async def _show_held(self) -> None:
        """Show clients the held partitions whose leaders have applied the change by now."""
        image = self._view.image
        if self._visibility.holds and self._epoch >= 0 and self._broker_id in image.brokers:
            states = self._visibility.release(image)
            if states:
                await self._carry_out([self._broadcast().shown(image, self._broker_id, states)])
        self._visibility.settle()

    async def _show_controller(self) -> None:
        """Show a new controller to clients now, because the next change may come much later."""
        controller, image = self._loader.leader[1], self._view.image
        if controller is not None and controller != self._controller and self._epoch >= 0:
            self._controller = controller
            await self._carry_out([self._broadcast().controller_shown(image, self._broker_id)])


def in_full(after: ClusterImage, delta: ImageDelta) -> ImageDelta:
    """Return a delta that contains whole topics, as decisions return it, instead of only the topics' changed states."""
    if not delta.states:
        return delta
    changed = tuple(after.topics[states.name] for states in delta.states)
    return msgspec.structs.replace(delta, topics=delta.topics + changed, states=())
