"""Requests of brokers to the coordinator of share-group state: InitializeShareGroupState (83), ReadShareGroupState
(84), WriteShareGroupState (85, v1), DeleteShareGroupState (86) and ReadShareGroupStateSummary (87, v1).

Behavior
- Each request names a group, topics by id and partitions, and returns a result for each partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pybroker.broker.coordinators.share_state.coordinator import ShareStateCoordinator
from pybroker.broker.coordinators.share_state.records import batches_of
from pybroker.broker.coordinators.share_state.state import Key, Write
from pybroker.broker.requests.context import RequestContext
from pybroker.errors import KafkaError
from pybroker.native import CodecError
from pybroker.protocol import messages as m
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode

One = Callable[[Key, Any], Awaitable[Any]]
"""Executes the request for one partition and returns its result."""


async def _each(request: Any, result: type, do: One, failed: Callable[[int, KafkaError], Any]) -> list[Any]:
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            try:
                partitions.append(await do(Key(request.group_id, topic.topic_id, wanted.partition), wanted))
            except KafkaError as problem:
                partitions.append(failed(wanted.partition, problem))
        topics.append(result(topic_id=topic.topic_id, partitions=partitions))
    return topics


def _failed(made: type) -> Callable[[int, KafkaError], Any]:
    return lambda index, error: made(partition=index, error_code=error.code, error_message=error.message)


async def initialize(states: ShareStateCoordinator, _: RequestContext, request: Any) -> Any:
    """Handle key 83."""

    async def do(key: Key, wanted: Any) -> Any:
        await states.initialize(key, wanted.state_epoch, wanted.start_offset)
        return m.InitializeShareGroupStateResponse_PartitionResult(partition=key.partition)

    failed = _failed(m.InitializeShareGroupStateResponse_PartitionResult)
    results = await _each(request, m.InitializeShareGroupStateResponse_InitializeStateResult, do, failed)
    return m.InitializeShareGroupStateResponse(results=results)


async def read(states: ShareStateCoordinator, _: RequestContext, request: Any) -> Any:
    """Handle key 84."""

    async def do(key: Key, wanted: Any) -> Any:
        state = await states.read(key, wanted.leader_epoch)
        return m.ReadShareGroupStateResponse_PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[m.ReadShareGroupStateResponse_StateBatch(*batch) for batch in state.batches],
        )

    failed = _failed(m.ReadShareGroupStateResponse_PartitionResult)
    results = await _each(request, m.ReadShareGroupStateResponse_ReadStateResult, do, failed)
    return m.ReadShareGroupStateResponse(results=results)


async def write(states: ShareStateCoordinator, _: RequestContext, request: Any) -> Any:
    """Handle key 85."""

    async def do(key: Key, wanted: Any) -> Any:
        try:
            batches = tuple(batches_of(wanted.state_batches))
        except CodecError as problem:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(problem)) from None
        change = Write(
            wanted.state_epoch, wanted.leader_epoch, wanted.start_offset, wanted.delivery_complete_count, batches
        )
        await states.write(key, change)
        return m.WriteShareGroupStateResponse_PartitionResult(partition=key.partition)

    failed = _failed(m.WriteShareGroupStateResponse_PartitionResult)
    results = await _each(request, m.WriteShareGroupStateResponse_WriteStateResult, do, failed)
    return m.WriteShareGroupStateResponse(results=results)


async def delete(states: ShareStateCoordinator, _: RequestContext, request: Any) -> Any:
    """Handle key 86."""

    async def do(key: Key, wanted: Any) -> Any:
        await states.delete(key)
        return m.DeleteShareGroupStateResponse_PartitionResult(partition=key.partition)

    failed = _failed(m.DeleteShareGroupStateResponse_PartitionResult)
    results = await _each(request, m.DeleteShareGroupStateResponse_DeleteStateResult, do, failed)
    return m.DeleteShareGroupStateResponse(results=results)


async def summary(states: ShareStateCoordinator, _: RequestContext, request: Any) -> Any:
    """Handle key 87. If a partition has no state, its start offset and state epoch are −1."""

    async def do(key: Key, wanted: Any) -> Any:
        made = m.ReadShareGroupStateSummaryResponse_PartitionResult(
            partition=key.partition, state_epoch=-1, start_offset=-1
        )
        state = states.summary(key)
        if state is not None:
            made.state_epoch, made.start_offset = state.state_epoch, state.start_offset
            made.leader_epoch, made.delivery_complete_count = state.leader_epoch, state.complete_count
        return made

    failed = _failed(m.ReadShareGroupStateSummaryResponse_PartitionResult)
    results = await _each(request, m.ReadShareGroupStateSummaryResponse_ReadStateSummaryResult, do, failed)
    return m.ReadShareGroupStateSummaryResponse(results=results)


HANDLERS: dict[int, Callable[[ShareStateCoordinator, RequestContext, Any], Awaitable[Any]]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: initialize,
    ApiKey.READ_SHARE_GROUP_STATE: read,
    ApiKey.WRITE_SHARE_GROUP_STATE: write,
    ApiKey.DELETE_SHARE_GROUP_STATE: delete,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: summary,
}
