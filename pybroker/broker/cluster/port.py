"""The way to the controller, wherever it is."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from pybroker.broker.cluster.events import Event
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

R = TypeVar("R")


class Answer(msgspec.Struct, Generic[R], frozen=True):
    """What became of an event: it is decided and durable."""

    reply: R
    in_force: bool
    """False: the time was over before; it comes into force later."""
    throttle_time_ms: int = 0
    """How long the client that wanted it has to wait: it is over its `controller_mutation_rate`."""

    @property
    def late(self) -> KafkaError | None:
        """What is said of a change of settings or rights that is not in force; None of one that is."""
        if self.in_force:
            return None
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The change is decided; who does not answer now obeys it when it is back."
        )


class Asked(msgspec.Struct, frozen=True):
    """Which request an event is of. However often it is submitted, it is decided once."""

    request_id: Uuid
    ms_ago: int = 0
    """When it was submitted for the first time; 0: now."""


class ControllerPort(Protocol):
    """Takes events. Who holds it knows nothing else of the controller."""

    async def submit(
        self, event: Event[R], timeout_ms: int | None = None, *, caller: Caller | None = None
    ) -> Answer[R]:
        """Has an event decided, and answers when the decision is in force: when this broker's view and its clients see
        it, and beyond that when

        - CreateTopics, CreatePartitions, TruncateTopics: the leaders take records. A topic that no disk took is taken
          back, and its reply is the error;
        - DeleteTopics: the name is free;
        - UndeleteTopic: the topic is in service, or could not be brought back, which is its reply then;
        - AlterConfigs, AlterClientQuotas, CreateAcls, DeleteAcls, AlterUsers, UpdateFeatures: every live
          broker obeys.

        With `timeout_ms`, which counts from the call on, it answers then at the latest. In a cluster this holds for the
        decision, too, and who names no time has 25 s. Who is cancelled while waiting does not stop what was submitted.

        `caller`: the client that wants it. This broker has found that it may; the controller looks again (KIP-590), as
        rights that were taken away may not be known here yet, and counts the partitions that are made and removed for
        it (KIP-599). None: a broker wants it by itself.

        Raises KafkaError, and then nothing was changed: NOT_CONTROLLER (nobody decides now; try again),
        KAFKA_STORAGE_ERROR (the store has failed), or why the event is refused as a whole. REQUEST_TIMED_OUT: the
        message says whether it may have been decided.
        """
        ...

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """Returns when this broker's view shows all that was decided before the call: before something is called
        unknown that another broker may have been asked for. Raises KafkaError NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        ...


class OwnPort(ControllerPort, Protocol):
    """The port of the controller in this process, if there is one."""

    @property
    def is_open(self) -> bool:
        """Whether events are taken: this broker is the controller."""
        ...

    async def submit(
        self,
        event: Event[R],
        timeout_ms: int | None = None,
        *,
        caller: Caller | None = None,
        asked_by: int | None = None,
        asked: Asked | None = None,
    ) -> Answer[R]:
        """As `ControllerPort`; NOT_CONTROLLER where there is no controller. `asked_by`: the broker that waits for the
        answer, if not this one. `asked`: with it the outcome is kept."""
        ...
