"""Code that ConsumerGroupHeartbeat (68), ShareGroupHeartbeat (76) and StreamsGroupHeartbeat (88) share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from pybroker.broker.coordinators.consumer.records import by_topic
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

Outcome = TypeVar("Outcome")
Response = TypeVar("Response")


def client_host(context: RequestContext) -> str:
    """Return the client's address with a leading slash, as Java prints an unresolved address. Kafka's tools remove the
    slash."""
    return f"/{context.client_host}"


def require_may_beat(group_id: str, topics: Iterable[str], may_read: Callable[[str], bool]) -> None:
    """Raise KafkaError TOPIC_AUTHORIZATION_FAILED if the member may not describe a topic, INVALID_REQUEST if the
    request names no group.
    """
    if not all(may_read(name) for name in topics):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The group id is empty.")


def answered(
    outcome: Outcome | asyncio.Future[Outcome], respond: Callable[[Outcome], Response]
) -> Response | Coroutine[Any, Any, Response]:
    """Return the response; if the coordinator has to write something first, return a coroutine."""
    return _later(outcome, respond) if isinstance(outcome, asyncio.Future) else respond(outcome)


async def _later(outcome: asyncio.Future[Outcome], respond: Callable[[Outcome], Response]) -> Response:
    return respond(await outcome)


def filled(response: Any, assignment: Callable[..., Any], topic: Callable[..., Any], result: Any) -> Any:
    """Fill `response` with the coordinator's `result`; `assignment` and `topic` are the classes of its nested fields.
    """
    response.error_code, response.error_message = result.error, result.message
    response.member_id, response.member_epoch = result.member_id, result.epoch
    response.heartbeat_interval_ms = result.interval_ms
    if result.assigned is not None:
        response.assignment = assignment(
            topic_partitions=[
                topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic(result.assigned)
            ]
        )
    return response
