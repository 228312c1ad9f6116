"""AlterPartition (key 56) between leader and controller: `AlterIsr` on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pybroker.broker.cluster.events import AlterIsr, IsrChange, IsrOutcome
from pybroker.protocol import interbroker as wire


def request_of(event: AlterIsr) -> Any:
    """Return the request. Consecutive changes of the same topic are in one entry; their order is kept."""
    return wire.AlterPartitionRequest(
        broker_id=event.broker_id,
        broker_epoch=event.broker_epoch,
        topics=[
            wire.AlterPartitionRequest_AlterPartitionTopic(
                topic_id=topic_id, partitions=[_partition(change) for change in changes]
            )
            for topic_id, changes in groupby(event.changes, lambda change: change.topic_id)
        ],
    )


def event_of(request: Any) -> AlterIsr:
    """Return the event that a request contains."""
    changes = [
        IsrChange(
            topic.topic_id,
            partition.partition_index,
            partition.leader_epoch,
            tuple((member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs),
            partition.partition_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    return AlterIsr(request.broker_id, request.broker_epoch, tuple(changes))


def response_of(request: Any, outcomes: Sequence[IsrOutcome]) -> Any:
    """Return the response: a result for each partition of the request, in its order."""
    left = iter(outcomes)
    return wire.AlterPartitionResponse(
        error_code=0,
        topics=[
            wire.AlterPartitionResponse_AlterPartitionTopicResult(
                topic_id=topic.topic_id,
                partitions=[_result(partition.partition_index, next(left)) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def outcomes_of(response: Any) -> list[IsrOutcome]:
    """Return the outcome of each change, in the order of the event."""
    return [
        IsrOutcome(
            partition.error_code,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.isr),
            partition.partition_epoch,
        )
        for topic in response.topics
        for partition in topic.partitions
    ]


def _partition(change: IsrChange) -> Any:
    members = [
        wire.AlterPartitionRequest_BrokerState(broker_id=broker_id, broker_epoch=epoch)
        for broker_id, epoch in change.isr
    ]
    return wire.AlterPartitionRequest_AlterPartitionPartition(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        new_isr_with_epochs=members,
        partition_epoch=change.version,
    )


def _result(partition: int, outcome: IsrOutcome) -> Any:
    return wire.AlterPartitionResponse_AlterPartitionPartitionResult(
        partition_index=partition,
        error_code=outcome.error_code,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        partition_epoch=outcome.version,
    )
