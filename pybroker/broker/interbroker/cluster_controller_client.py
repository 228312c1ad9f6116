"""The controller client of a broker in a cluster. While this broker is the controller, it submits events within this
process; otherwise over the inter-broker listener.

An event has a request id, under which the controller records the outcome together with the decision. If the answer is
lost, the client retries until the caller's timeout. The event is decided only once, and every later controller knows
its outcome. Proposals of leaders (AlterPartition) and ControlledShutdown have no request id. They contain the state
that they change, so the submitter can find the outcome in the metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView, ControllerLeadership
from pybroker.broker.cluster.controller_client import EventAnswer, InProcessControllerClient, RequestIdentity
from pybroker.broker.cluster.events import (
    AlterIsr,
    CatchUp,
    CreatePartitions,
    CreateTopics,
    ElectLeaders,
    Event,
    ShutDownBroker,
    ShutDownOutcome,
    TruncateTopics,
    UndeleteTopic,
)
from pybroker.broker.cluster.quorum_events import ANSWERED_WHEN_DURABLE
from pybroker.broker.cluster.value_codec import UnreadableError, pack_event, unpack_reply
from pybroker.broker.interbroker.alter_partition import outcomes_of, request_of
from pybroker.broker.interbroker.controller_connections import ControllerConnections, OpenConnection
from pybroker.broker.interbroker.controller_discovery import ControllerDiscovery
from pybroker.broker.interbroker.interbroker_connection import UNREACHABLE, InterBrokerConnection
from pybroker.broker.metadata.image import BrokerImage, ClusterImage
from pybroker.errors import KafkaError
from pybroker.native import CodecError, Uuid, decode, encode
from pybroker.protocol import interbroker as wire
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.caller import Caller, packed_caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

PATIENCE_MS = 25_000
"""Default timeout in milliseconds. Clients give up after 30 s (`request.timeout.ms`), so they get an answer before
that."""
DECISION_MS_MIN = 1_000
"""Minimum milliseconds for a decision. A caller with a shorter timeout does not wait until the change is applied, but
even the decision takes a moment.
"""
WAY_MS_MAX = 1_000
"""Milliseconds before its timeout at which a submission stops waiting for the decision to be applied, so that the
answer arrives in time.
"""
ANSWER_S_MAX = 3_600.0
"""Seconds, longer than any caller waits: the caller itself closes the connection at its timeout."""
PAUSE_S = 0.05
SILENCE_S = 5.0
"""Seconds after which this broker asks other brokers for a new controller while the controller does not answer, because
it may hang."""
LOST_SIGHT_S = 1.0
"""Seconds without a controller after which this broker asks others. The store may not have announced a new controller
to this broker yet.
"""

WITHOUT_ID = AlterIsr | ShutDownBroker

R = TypeVar("R")


class LostAnswerError(KafkaError):
    """The event was sent to the controller, but this broker does not know whether the controller has decided it."""


class ForwardedEvent(msgspec.Struct, Generic[R], frozen=True):
    """An event on its way to the controller, with its deadlines and its caller."""

    event: Event[R]
    caller: Caller | None
    asked: RequestIdentity | None
    deadline: float
    """Loop time at which the wait for the decision to be applied ends."""


class FollowedView(ClusterView, Protocol):
    """The cluster view, with a function that waits for a change."""

    async def reached(self, controller_epoch: int, number: int) -> None:
        """Wait until this broker has applied the change with that number."""
        ...


class ClusterControllerClient:
    """`cluster.controller_client.ControllerClient` of a broker in a cluster."""

    def __init__(
        self,
        *,
        broker_id: int,
        local: InProcessControllerClient,
        changes: Callable[[], tuple[int, int]],
        leadership: ControllerLeadership,
        view: FollowedView,
        open_connection: OpenConnection,
        address_of: Callable[[int], BrokerImage | None] = lambda broker_id: None,
        pulls: bool = False,
        clients_see: Callable[[Collection[Uuid]], Awaitable[None]] | None = None,
    ) -> None:
        """`changes` returns the controller epoch and the last change, if this broker is the controller.
        `address_of` returns the address of a controller that is not registered in the view. `pulls`: brokers pull
        changes from the metadata log, so the controller's own broker waits for its view like any other. `clients_see`
        waits until clients of this broker see the changes of topics that it has applied."""
        self._pulls = pulls
        self._clients_see = clients_see
        self._address_of = address_of
        self._broker_id = broker_id
        self._local = local
        self._changes = changes
        self._leadership = leadership
        self._view = view
        self._connections = ControllerConnections(open_connection)
        self._discovery = ControllerDiscovery(broker_id, leadership, view, open_connection)

    async def submit(
        self, event: Event[R], timeout_ms: int | None = None, *, caller: Caller | None = None
    ) -> EventAnswer[R]:
        """Submit an event to the controller; see `ControllerClient`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        given_ms = PATIENCE_MS if timeout_ms is None else max(0, timeout_ms)
        try:
            async with asyncio.timeout_at(began + max(given_ms, DECISION_MS_MIN) / 1000):
                deadline = began + (given_ms - min(WAY_MS_MAX, given_ms // 10)) / 1000
                return await self._submit(event, began, deadline, caller)
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "No decision within the timeout: the controller does not answer or cannot reach the metadata "
                "store. The change may still be made. Read the current state before you try again.",
            ) from None

    async def _submit(self, event: Event[R], began: float, deadline: float, caller: Caller | None) -> EventAnswer[R]:
        """Submit the event repeatedly, until an answer or a final error comes. `deadline` only limits the wait until
        the decision is applied.
        """
        loop = asyncio.get_running_loop()
        request_id = Uuid.random()
        lost_sight: float | None = None
        while True:
            left_ms = max(0, int((deadline - loop.time()) * 1000))
            asked = (
                None
                if isinstance(event, WITHOUT_ID)
                else RequestIdentity(request_id, int((loop.time() - began) * 1000))
            )
            try:
                if self._local.is_open:
                    answer = await self._local.submit(event, left_ms, caller=caller, asked=asked)
                    waits = self._pulls and type(event) not in ANSWERED_WHEN_DURABLE
                    if waits or isinstance(event, CatchUp):
                        answer = await self._shown(event, answer, self._changes(), deadline)
                    return answer
                return await self._forward(ForwardedEvent(event, caller, asked, deadline))
            except KafkaError as error:
                again = error.code == ErrorCode.NOT_CONTROLLER or (
                    isinstance(error, LostAnswerError) and asked is not None
                )
                if not again or loop.time() >= deadline:
                    raise
                log.debug("retrying a request to the controller request=%s: %s", type(event).__name__, error)
                lost_sight = lost_sight or loop.time()
                if loop.time() - lost_sight >= LOST_SIGHT_S:
                    await self._discovery.search()
            await self._pause(deadline)

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """Wait for all earlier decisions; see `ControllerClient`. The controller's own broker submits CatchUp too,
        because the metadata store must confirm that no other broker has become the controller.
        """
        # The answer waits until the view has the controller's last change.
        if not (await self.submit(CatchUp(), timeout_ms)).is_complete:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "This broker has no current metadata from the controller.")

    async def _pause(self, deadline: float) -> None:
        """Wait until the controller may have changed."""
        changes = asyncio.ensure_future(self._leadership.changes())
        left = deadline - asyncio.get_running_loop().time()
        await asyncio.wait([changes], timeout=min(PAUSE_S, max(0.0, left)))
        changes.cancel()

    async def _forward(self, wanted: ForwardedEvent[R]) -> EventAnswer[R]:
        controller = self._controller()
        reached = False
        try:
            async with self._connections.to(controller) as connection:
                reached = True
                return await self._ask(connection, controller.broker_id, wanted)
        except UNREACHABLE as problem:
            if not reached:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, f"Cannot reach the controller: {problem}") from problem
            if isinstance(problem, KafkaError):
                raise
            raise LostAnswerError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The controller received the request but did not answer ({problem}). The change may be made. "
                "Read the current state before you try again.",
            ) from problem

    async def _ask(
        self, connection: InterBrokerConnection, controller: int, wanted: ForwardedEvent[R]
    ) -> EventAnswer[R]:
        # A paused controller answers too late. If another broker becomes the controller in the meantime, send the
        # request to it.
        replaced = asyncio.ensure_future(self._replaced(controller))

        def give_up(done: asyncio.Future[None]) -> None:
            if not done.cancelled():
                connection.abort()

        replaced.add_done_callback(give_up)
        event = wanted.event
        try:
            if isinstance(event, AlterIsr):
                return await _alter_partition(connection, event)
            if isinstance(event, ShutDownBroker):
                return await _shut_down(connection, event)
            return await self._envelope(connection, controller, wanted)
        finally:
            replaced.cancel()

    async def _replaced(self, controller: int) -> None:
        """Wait until another broker is the controller. If there is no controller, an election may be running, so
        continue to wait.
        """
        while self._discovery.controller in (None, controller):
            try:
                async with asyncio.timeout(SILENCE_S):
                    await self._leadership.changes()
            except TimeoutError:
                await self._discovery.search()

    async def _envelope(
        self, connection: InterBrokerConnection, controller: int, wanted: ForwardedEvent[R]
    ) -> EventAnswer[R]:
        event, asked = wanted.event, wanted.asked
        assert asked is not None, event
        left_ms = max(0, int((wanted.deadline - asyncio.get_running_loop().time()) * 1000))
        caller = wanted.caller
        inner = wire.SubmitEventRequest(
            broker_id=self._broker_id,
            event=pack_event(event),
            timeout_ms=left_ms,
            asked_ms_ago=asked.ms_ago,
            client_id="" if caller is None else caller.client_id,
            slowed_only=caller is not None and caller.slowed_only,
        )
        principal, host = packed_caller(caller)
        envelope = wire.EnvelopeRequest(
            request_data=encode(inner, 0),
            request_principal=principal,
            client_host_address=host,
            request_id=asked.request_id,
        )
        answer = await connection.request(envelope, timeout_s=ANSWER_S_MAX)
        kind = type(event).__name__
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            self._discovery.note_denial(controller, answer)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{kind}: the controller at {connection.address} refused the request.")
        try:
            reply = decode(ApiKey.SUBMIT_EVENT, 0, answer.response_data or b"", False, interbroker=True)
            if reply.error_code:
                raise KafkaError(reply.error_code, reply.error_message)
            found = unpack_reply(type(event), reply.reply)
        except (UnreadableError, CodecError) as problem:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{kind}: {problem}") from problem
        change = answer.controller_epoch, answer.change_number
        answered = EventAnswer(found, reply.in_force, reply.throttle_time_ms)
        if type(event) in ANSWERED_WHEN_DURABLE:
            return answered
        return await self._shown(event, answered, change, wanted.deadline)

    async def _shown(
        self, event: Event[R], answer: EventAnswer[R], change: tuple[int, int], deadline: float
    ) -> EventAnswer[R]:
        """Return the answer when this broker's view contains the change and its clients see it. If the deadline comes
        first, return an answer with `is_complete` False.
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._view.reached(*change)
                if self._clients_see is not None:
                    await self._clients_see(_topics_of(event, answer.reply, self._view.image))
        except TimeoutError:
            return msgspec.structs.replace(answer, is_complete=False)
        return answer

    def _controller(self) -> BrokerImage:
        controller = self._discovery.controller
        broker = None
        if controller is not None:
            broker = self._view.image.brokers.get(controller) or self._address_of(controller)
        if broker is None:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER,
                "There is no controller now. `pybroker cluster health` shows whether a majority is missing.",
            )
        return broker

    def close(self) -> None:
        """Close the connections; waiting submissions fail."""
        self._discovery.close()
        self._connections.close()


def _topics_of(event: Event[Any], reply: Any, image: ClusterImage) -> Collection[Uuid]:
    """Return the topics to which an event gives new leaders."""
    match event:
        case CreateTopics() | TruncateTopics():
            return {result.topic_id for result in reply if not isinstance(result, KafkaError)}
        case UndeleteTopic():
            return {event.topic_id}
        case CreatePartitions():
            names = {topic.name for topic in event.topics}
        case ElectLeaders():
            names = {result.topic for result in reply}
        case _:
            return ()
    return {image.topics[name].topic_id for name in names if name in image.topics}


async def _alter_partition(connection: InterBrokerConnection, event: AlterIsr) -> EventAnswer[Any]:
    """Propose ISR changes. The leader waits only for the controller's answer, not until its own view contains the
    change."""
    answer = await connection.request(request_of(event), timeout_s=ANSWER_S_MAX)
    if answer.error_code:
        raise KafkaError(answer.error_code, "The controller refused to change ISRs.")
    return EventAnswer(outcomes_of(answer), True)


async def _shut_down(connection: InterBrokerConnection, event: ShutDownBroker) -> EventAnswer[Any]:
    request = wire.ControlledShutdownRequest(broker_id=event.broker_id, broker_epoch=event.broker_epoch)
    answer = await connection.request(request, timeout_s=ANSWER_S_MAX)
    if answer.error_code:
        raise KafkaError(answer.error_code, "The controller refused to hand over leadership.")
    remaining = tuple(
        (remaining_partition.topic_name, remaining_partition.partition_index)
        for remaining_partition in answer.remaining_partitions
    )
    return EventAnswer(ShutDownOutcome(remaining), True)
