"""When a decision is in force, and what is answered then. See `cluster.port.ControllerPort.submit`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from pybroker.broker.cluster.events import (
    BY_BROKER,
    AlterClientQuotas,
    AlterConfigs,
    AlterIsr,
    AlterUsers,
    BeginIngest,
    ChangeToken,
    CreateAcls,
    CreatedTopic,
    CreatePartitions,
    CreateToken,
    CreateTopics,
    DeleteAcls,
    DeletedTopic,
    DeleteTopics,
    Event,
    ShutDownBroker,
    TruncateTopics,
    UndeleteTopic,
    UpdateFeatures,
)
from pybroker.broker.cluster.port import Answer, ControllerPort
from pybroker.broker.controller.deletions import Deletions
from pybroker.broker.controller.events import FinishUndelete
from pybroker.broker.controller.local_port import Submission
from pybroker.broker.controller.outbox import Sent, applied, led, shown_to
from pybroker.broker.metadata.control_messages import ControlResponse, LeaderAndIsrResponse
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

OBEYED_EVERYWHERE: frozenset[type[Event[Any]]] = frozenset(
    {
        AlterClientQuotas,
        AlterConfigs,
        AlterUsers,
        BeginIngest,
        ChangeToken,
        CreateAcls,
        CreateToken,
        DeleteAcls,
        ShutDownBroker,
        UpdateFeatures,
    }
)
"""In force when every live broker has obeyed …"""

LED: frozenset[type[Event[Any]]] = frozenset({CreatePartitions, CreateTopics, FinishUndelete, TruncateTopics})
"""… when those that lead what was made do: a follower that cannot be reached must hold nobody up; others when the
broker that asked shows them."""


class Decided(msgspec.Struct, frozen=True):
    """A decision that is durable and on its way to the brokers."""

    reply: Any
    waits: Sequence[asyncio.Future[Any]]
    """When all of these are done, it is in force. What was sent is not kept until then: each message is freed when it
    has been answered, and not those to a hundred brokers at once."""


class InForce:
    """Belongs to the controller; runs on the loop's thread."""

    def __init__(self, port: ControllerPort, deletions: Deletions, wall_ms: Callable[[], int]) -> None:
        self._port = port
        self._deletions = deletions
        self._wall_ms = wall_ms

    def decided(self, submission: Submission, reply: Any, sent: Sent) -> Decided:
        """What it is waited for before the decision is answered."""
        event = submission.event
        waits: list[asyncio.Future[Any]] = []
        if isinstance(event, UndeleteTopic):
            if not isinstance(reply, KafkaError):
                waits.append(self._deletions.undelete_finished(event.topic_id))
        elif isinstance(event, AlterIsr):
            pass  # the leader goes on as soon as its set is written
        elif type(event) in OBEYED_EVERYWHERE:
            waits += applied(sent)
        else:
            waits += shown_to(sent, submission.asked_by)
            if type(event) in LED:
                waits += led(sent)
        if isinstance(event, DeleteTopics):
            ids = [one.topic_id for one in reply if isinstance(one, DeletedTopic)]
            waits += [freed for one in ids if (freed := self._deletions.name_freed(one)) is not None]
        return Decided(reply, waits)

    async def answer(self, submission: Submission, decided: Decided) -> Answer[Any]:
        """Waits until the decision is in force, or the time is over."""
        event, reply, waits = submission.event, decided.reply, decided.waits
        if not await _done_by(waits, submission.deadline):
            return Answer(reply, False)
        if isinstance(event, UndeleteTopic) and waits:
            reply = waits[0].result()
        elif isinstance(event, CreateTopics) and waits:
            reply = await self._without_failed(reply, [one.result() for one in waits])
        return Answer(reply, True)

    async def _without_failed(
        self, results: list[CreatedTopic | KafkaError], responses: Sequence[ControlResponse]
    ) -> list[CreatedTopic | KafkaError]:
        """A topic that no disk took is taken back: half a topic helps nobody, and its name would be taken."""
        failed: dict[Uuid, int] = {}
        for response in responses:
            if isinstance(response, LeaderAndIsrResponse):
                for topic in response.topics:
                    for partition in topic.partition_errors:
                        if partition.error_code:
                            failed.setdefault(topic.topic_id, partition.error_code)
        doomed = [result for result in results if isinstance(result, CreatedTopic) and result.topic_id in failed]
        if not doomed:
            return results
        await self._port.submit(DeleteTopics(tuple(one.topic_id for one in doomed), BY_BROKER, self._wall_ms(), 0))
        errors = {
            topic.topic_id: KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Topic '{topic.name}' was not created: a log directory refused its partitions (error "
                f"{failed[topic.topic_id]}, see the broker's log).",
            )
            for topic in doomed
        }
        return [errors.get(one.topic_id, one) if isinstance(one, CreatedTopic) else one for one in results]


async def _done_by(waits: Iterable[asyncio.Future[Any]], deadline: float | None) -> bool:
    pending = [one for one in waits if not one.done()]
    if pending:
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        if left is not None and left <= 0:
            return False
        _, late = await asyncio.wait(pending, timeout=left)
        # What is cancelled will not come: the controller stops.
        return not late and not any(one.cancelled() for one in pending)
    return True
