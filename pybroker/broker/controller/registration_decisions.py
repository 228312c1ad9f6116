"""Decisions about the registrations and state reports of brokers in a metadata quorum. Pure functions.

With a metadata store, there are no such events: brokers write registrations, marks of staged data and producer id
blocks to the store themselves.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from pybroker.broker.cluster.quorum_events import (
    AllocateProducerIds,
    AskClusterId,
    BrokerHeartbeat,
    MarkStaged,
    ProducerIdRange,
    QuorumEvent,
    RegisterBroker,
    RegisteredBroker,
    ReplicasRestored,
    ReplicasStopped,
    StopBroker,
)
from pybroker.broker.controller.broker_decisions import decide_brokers
from pybroker.broker.controller.decision import Decision, decides, nothing, require_broker_epoch
from pybroker.broker.controller.internal_events import Arrival, BrokersChanged, BrokerSessionEnded
from pybroker.broker.metadata.feature_levels import range_of
from pybroker.broker.metadata.image import BrokerImage, ClusterImage, ImageDelta
from pybroker.broker.metadata.running_marks import assess
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

PRODUCER_IDS = 1_000
"""Number of producer ids in a block."""
PRODUCER_ID_MAX = (1 << 63) - 1


@decides(RegisterBroker)
def decide_registration(image: ClusterImage, event: RegisterBroker) -> Decision:
    """Register a broker. The broker epoch is the offset of the registration in the metadata log, or a lower offset at
    which there is no registration. The decision also covers records that the broker may have lost since its previous
    run."""
    known, before = image.brokers.get(event.broker_id), image.running.get(event.broker_id)
    if known is not None and known.incarnation == event.incarnation:
        return nothing(RegisteredBroker(known.epoch))
    run = event.run
    level, supported = image.features.metadata_version, range_of(event.features)
    if level is not None and level not in supported:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The cluster is at level {level} of metadata.version, and broker {event.broker_id} supports {supported}: "
            "start it with a release that supports the level.",
        )
    if known is not None and not (
        before is not None and run.directory_ids and run.directory_ids[:1] == before.directory_ids[:1]
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Broker id {event.broker_id} is in use by a live broker of this cluster; choose another node.id.",
        )
    mark, lost = assess(before, run)
    broker = BrokerImage(
        event.broker_id,
        image.offset,
        event.endpoints,
        event.rack,
        bool(mark.gone),
        event.log_dirs,
        event.cordoned,
        event.incarnation,
        event.features,
    )
    decision = decide_brokers(image, BrokersChanged((Arrival(broker, not mark.suspect),)))
    running = {event.broker_id: msgspec.structs.replace(mark, suspect=False)}
    delta = msgspec.structs.replace(decision.delta, running=running)
    return msgspec.structs.replace(decision, delta=delta, reply=RegisteredBroker(broker.epoch, lost))


@decides(StopBroker)
def decide_stop(image: ClusterImage, event: StopBroker) -> Decision:
    """End a registration, and record that the broker has stopped cleanly."""
    require_broker_epoch(image, event.broker_id, event.broker_epoch)
    decision = decide_brokers(image, BrokersChanged(gone=(event.broker_id,)))
    mark = image.running.get(event.broker_id)
    if mark is None:
        return decision
    ended = msgspec.structs.replace(mark, stopped=True, gone=() if event.complete else mark.gone)
    return msgspec.structs.replace(
        decision, delta=msgspec.structs.replace(decision.delta, running={event.broker_id: ended})
    )


@decides(BrokerSessionEnded)
def decide_session_end(image: ClusterImage, event: BrokerSessionEnded) -> Decision:
    """Fence a broker. If the broker is still running, it notices the fencing and registers with a new broker epoch."""
    require_broker_epoch(image, event.broker_id, event.broker_epoch)
    return decide_brokers(image, BrokersChanged(gone=(event.broker_id,)))


@decides(MarkStaged)
def decide_marks(image: ClusterImage, event: MarkStaged) -> Decision:
    """Add and remove a broker's marks of staged data."""
    known = image.staged.get(event.broker_id, {})
    staged = {topic_id: mark for topic_id, mark in event.staged.items() if known.get(topic_id) != mark}
    removed = tuple((event.broker_id, topic_id) for topic_id in event.removed if topic_id in known)
    return Decision((), ImageDelta(staged={event.broker_id: staged} if staged else {}, unstaged=removed), None)


@decides(AllocateProducerIds)
def decide_producer_ids(image: ClusterImage, event: AllocateProducerIds) -> Decision:
    """Give the next block of producer ids to one broker."""
    del event
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been used.")
    end = first + PRODUCER_IDS
    return Decision((), ImageDelta(next_producer_id=end), ProducerIdRange(first, end - 1))


@decides(BrokerHeartbeat)
def decide_heartbeat(image: ClusterImage, event: BrokerHeartbeat) -> Decision:
    """Decide nothing: heartbeats are processed before the queue."""
    del image, event
    return nothing(None)


def decide_quorum_event(image: ClusterImage, event: QuorumEvent) -> Decision:
    """Refuse the event: the leader of the metadata log handles such events itself."""
    del image, event
    raise KafkaError(ErrorCode.INVALID_REQUEST, "This is no event for the controller.")


for _kind in get_args(QuorumEvent):
    decides(_kind)(decide_quorum_event)


@decides(AskClusterId)
def decide_cluster_id(image: ClusterImage, event: AskClusterId) -> Decision:
    """Refuse the event: nodes answer it without a controller."""
    del image, event
    raise KafkaError(ErrorCode.INVALID_REQUEST, "This is no event for the controller.")


@decides(ReplicasStopped)
def decide_stopped(image: ClusterImage, event: ReplicasStopped) -> Decision:
    """Decide nothing: `Confirmations` processes the response."""
    del image, event
    return nothing(None)


@decides(ReplicasRestored)
def decide_restored(image: ClusterImage, event: ReplicasRestored) -> Decision:
    """Decide nothing: `Confirmations` processes the response."""
    del image, event
    return nothing(None)
