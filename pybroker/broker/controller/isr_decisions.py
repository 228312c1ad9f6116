"""Decisions about the ISR (KIP-497): the leader proposes, the controller writes. Pure functions."""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import AlterIsr, IsrChange, IsrOutcome
from pybroker.broker.controller.decision import Decision, decides, require_broker_epoch
from pybroker.broker.controller.leader_election import linking_partitions
from pybroker.broker.controller.partition_states import with_partitions
from pybroker.broker.controller.topic_decisions import encode_state
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage
from pybroker.broker.metadata.metadata_store import Operation, Set
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


@decides(AlterIsr)
def decide_alter_isr(image: ClusterImage, event: AlterIsr) -> Decision:
    """Change ISRs; each partition succeeds or fails independently. A broker joins an ISR only if the leader names the
    broker's current epoch (KIP-903). If the broker has restarted since the leader's request, it may have lost records
    that the leader counts as replicated."""
    require_broker_epoch(image, event.broker_id, event.broker_epoch)
    operations: list[Operation] = []
    changed: dict[str, list[PartitionImage]] = {}
    outcomes: list[IsrOutcome] = []
    held: dict[Uuid, set[int]] = {}
    """Topic id → partitions that accept no new ISR member while a staged ingest is being linked."""
    for change in event.changes:
        name = image.names.get(change.topic_id)
        if name is None or change.partition >= len(image.topics[name].partitions):
            outcomes.append(IsrOutcome(ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        partitions = changed.get(name) or list(image.topics[name].partitions)
        before = partitions[change.partition]
        refused = _refusal(image, before, change, event.broker_id)
        if not refused and any(broker not in before.isr for broker, _ in change.isr):
            if change.topic_id not in held:
                held[change.topic_id] = linking_partitions(image, change.topic_id)
            if change.partition in held[change.topic_id]:
                refused = ErrorCode.INELIGIBLE_REPLICA
        if refused:
            outcomes.append(_outcome(refused, before))
            continue
        isr = tuple(broker for broker, _ in change.isr)
        after = msgspec.structs.replace(
            before,
            isr=isr,
            controller_epoch=image.controller_epoch,
            state_version=before.state_version + 1,
            # The leader is alive, and it has every record.
            suspect=(),
            young=False,
            offline=tuple(broker_id for broker_id in before.offline if broker_id not in isr or broker_id in before.isr),
        )
        partitions[change.partition] = after
        changed[name] = partitions
        path = znodes.state_path(name, change.partition)
        operations.append(Set(path, encode_state(after), before.state_version))
        outcomes.append(_outcome(ErrorCode.NONE, after))
    topics = tuple(with_partitions(image.topics[name], partitions) for name, partitions in changed.items())
    return Decision(tuple(operations), ImageDelta(topics=topics), outcomes, separable=True)


def _outcome(code: int, state: PartitionImage) -> IsrOutcome:
    return IsrOutcome(code, state.leader, state.leader_epoch, state.isr, state.state_version)


def _refusal(image: ClusterImage, before: PartitionImage, change: IsrChange, leader: int) -> ErrorCode:
    if change.leader_epoch < before.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if change.leader_epoch > before.leader_epoch:
        # A leader cannot have a newer epoch than the controller.
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if before.leader != leader:
        return ErrorCode.INVALID_REQUEST
    if change.version != before.state_version:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [broker for broker, _ in change.isr]
    if leader not in members or len(set(members)) != len(members) or not set(members) <= set(before.replicas):
        return ErrorCode.INVALID_REQUEST
    for broker, epoch in change.isr:
        alive = image.brokers.get(broker)
        stays = broker in before.isr
        if broker in image.leaving and not stays:
            return ErrorCode.INELIGIBLE_REPLICA
        known = stays or broker == leader
        if not (known if alive is None else epoch == alive.epoch or (epoch == -1 and known)):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
