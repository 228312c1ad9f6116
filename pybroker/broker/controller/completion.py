"""Decision completion: waits until brokers have applied a decision and show it to clients, then responds to the
submitter. See `cluster.controller_client.ControllerClient.submit`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pybroker.broker.cluster.controller_client import ControllerClient, EventAnswer
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
from pybroker.broker.cluster.quorum_events import ANSWERED_WHEN_DURABLE
from pybroker.broker.controller.deletion_tracker import Deletions
from pybroker.broker.controller.internal_events import FinishUndelete
from pybroker.broker.controller.local_controller_client import Submission
from pybroker.broker.controller.outbox import ChangeDelivery
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
"""Events that are complete when every live broker has applied them."""

LED: frozenset[type[Event[Any]]] = frozenset({CreatePartitions, CreateTopics, FinishUndelete, TruncateTopics})
"""Events that are complete when the leaders of the new partitions have applied them. The response does not wait for
followers, because a follower may be unreachable.

Events in neither set are complete when the metadata of the submitting broker shows them."""


class DurableDecision(msgspec.Struct, frozen=True):
    """A durable decision that some brokers have not applied yet."""

    reply: Any
    waits: Sequence[asyncio.Future[Any]]
    """The decision is complete when these futures are done. They must hold no reference to a request, so that each
    request is freed when it is answered. Otherwise the requests to a hundred brokers would all be freed at the same
    time."""


class DecisionCompleter:
    """The decision completion of one controller, on the event loop's thread."""

    def __init__(self, controller: ControllerClient, deletions: Deletions, wall_ms: Callable[[], int]) -> None:
        self._controller = controller
        self._deletions = deletions
        self._wall_ms = wall_ms

    def track(self, submission: Submission, reply: Any, sent: ChangeDelivery) -> DurableDecision:
        """Return the decision with the futures that the response waits for."""
        event = submission.event
        waits: list[asyncio.Future[Any]] = []
        if isinstance(event, UndeleteTopic):
            if not isinstance(reply, KafkaError):
                waits.append(self._deletions.undelete_finished(event.topic_id))
        elif isinstance(event, AlterIsr) or type(event) in ANSWERED_WHEN_DURABLE:
            pass  # AlterIsr is complete at once: the leader continues as soon as the store has its ISR.
        elif type(event) in OBEYED_EVERYWHERE:
            waits += sent.applied()
        else:
            waits += sent.shown_to(submission.asked_by)
            if type(event) in LED:
                waits += sent.led()
        if isinstance(event, DeleteTopics):
            ids = [result.topic_id for result in reply if isinstance(result, DeletedTopic)]
            waits += [freed for topic_id in ids if (freed := self._deletions.name_freed(topic_id)) is not None]
        return DurableDecision(reply, waits)

    async def answer(self, submission: Submission, decided: DurableDecision) -> EventAnswer[Any]:
        """Wait until the decision is complete or the deadline has passed, then return the answer.

        Raise KafkaError NOT_CONTROLLER if this controller resigns first. A retry then gets the recorded reply from the
        next controller.
        """
        event, reply, waits = submission.event, decided.reply, decided.waits
        if not await _wait_until(waits, submission.deadline):
            if any(future.cancelled() for future in waits):
                if submission.asked is not None:
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is no longer the controller.")
                if isinstance(event, UndeleteTopic):
                    stopping = "The broker is shutting down. The undelete continues on the next controller."
                    return EventAnswer(KafkaError(ErrorCode.NOT_CONTROLLER, stopping), True)
            return EventAnswer(reply, False)
        if isinstance(event, UndeleteTopic) and waits:
            reply = waits[0].result()
        elif isinstance(event, CreateTopics) and waits:
            reply = await self._delete_refused_topics(reply, [future.result() for future in waits])
        return EventAnswer(reply, True)

    async def _delete_refused_topics(
        self, results: list[CreatedTopic | KafkaError], responses: Sequence[ControlResponse]
    ) -> list[CreatedTopic | KafkaError]:
        """Delete a new topic if one of its partitions could not be created in any log directory. An incomplete topic is
        unusable and would occupy its name."""
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
        await self._controller.submit(
            DeleteTopics(tuple(topic.topic_id for topic in doomed), BY_BROKER, self._wall_ms(), 0)
        )
        errors = {
            topic.topic_id: KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Topic '{topic.name}' was not created: a log directory refused its partitions (error "
                f"{failed[topic.topic_id]}). See the broker's log.",
            )
            for topic in doomed
        }
        return [
            errors.get(result.topic_id, result) if isinstance(result, CreatedTopic) else result for result in results
        ]


async def _wait_until(waits: Sequence[asyncio.Future[Any]], deadline: float | None) -> bool:
    pending = [future for future in waits if not future.done()]
    if pending:
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        if left is not None and left <= 0:
            return False
        await asyncio.wait(pending, timeout=left)
        if not all(future.done() for future in pending):
            return False
    # The controller cancels the futures when it resigns. A wait that begins later gets an already cancelled future.
    return not any(future.cancelled() for future in waits)
