"""The controller client: submits events to the controller, which may be on any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from pybroker.broker.cluster.events import Event
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

R = TypeVar("R")


class EventAnswer(msgspec.Struct, Generic[R], frozen=True):
    """The answer to an event. The event's decision is durable."""

    reply: R
    is_complete: bool
    """False if the timeout expired before the decision was applied everywhere; it will be applied later."""
    throttle_time_ms: int = 0
    """Milliseconds that the client has to wait because it exceeds its `controller_mutation_rate`."""

    @property
    def late(self) -> KafkaError | None:
        """Return the error if a change of settings or ACLs is not applied everywhere yet; otherwise None."""
        if self.is_complete:
            return None
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The change is committed. Unreachable brokers apply it when they reconnect."
        )


class RequestIdentity(msgspec.Struct, frozen=True):
    """The identity of a request. The controller decides the event only once, even if it is submitted several times."""

    request_id: Uuid
    ms_ago: int = 0
    """Milliseconds since the first submission; 0 for the first submission."""


class ControllerClient(Protocol):
    """Client of the controller: it submits events and hides where the controller is."""

    async def submit(
        self, event: Event[R], timeout_ms: int | None = None, *, caller: Caller | None = None
    ) -> EventAnswer[R]:
        """Submit an event and return the answer when its decision is complete. A decision is complete when this broker
        shows it in its metadata and to its clients, and in addition:

        - CreateTopics, CreatePartitions, TruncateTopics: the leaders accept records. If every log directory has refused
          a topic, the controller deletes the topic again, and its reply is the error;
        - DeleteTopics: the name is free;
        - UndeleteTopic: the topic is in service. If that is impossible, the reply is the error;
        - AlterConfigs, AlterClientQuotas, CreateAcls, DeleteAcls, AlterUsers, UpdateFeatures: every live broker has
          applied it.

        `timeout_ms` counts from the call and limits the wait. In a cluster it limits the decision too, and its default
        is 25 s. Cancelling the caller does not stop a submitted event.

        `caller` is the client that submits the event. This broker has authorized it; the controller authorizes it again
        (KIP-590), because this broker may not know of removed ACLs yet, and counts the partitions that it creates and
        deletes (KIP-599). None: a broker submits the event for itself.

        Raises KafkaError if nothing was changed: NOT_CONTROLLER (there is no controller now; retry),
        KAFKA_STORAGE_ERROR (the store has failed), or the reason to refuse the whole event. The message of
        REQUEST_TIMED_OUT says whether the event may have been decided.
        """
        ...

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """Wait until this broker's metadata shows every decision made before the call. Callers use it before they
        report a topic as unknown, because another broker may have created it. Raises KafkaError NOT_CONTROLLER if there
        is no controller, REQUEST_TIMED_OUT if the wait takes too long.
        """
        ...


class InProcessControllerClient(ControllerClient, Protocol):
    """A controller client for use when the controller is in this process."""

    @property
    def is_open(self) -> bool:
        """Whether events are accepted: this broker is the controller."""
        ...

    async def submit(
        self,
        event: Event[R],
        timeout_ms: int | None = None,
        *,
        caller: Caller | None = None,
        asked_by: int | None = None,
        asked: RequestIdentity | None = None,
    ) -> EventAnswer[R]:
        """Submit like `ControllerClient`; raises NOT_CONTROLLER if this broker is not the controller. `asked_by`: the
        other broker that waits for the answer, if there is one. `asked`: the id under which the outcome is recorded, so
        that a retry gets the same answer.
        """
        ...


async def submit_until_accepted(
    client: ControllerClient, event: Event[R], pause_s: float, retrying: Callable[[KafkaError], None]
) -> EventAnswer[R]:
    """Submit an event until the controller has accepted it. `retrying` gets each refusal, logs it, or raises it to give
    up.
    """
    while True:
        try:
            return await client.submit(event)
        except KafkaError as error:
            retrying(error)
        await asyncio.sleep(pause_s)
