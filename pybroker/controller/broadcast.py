"""From a change of the image to messages for each broker. Pure.

Order in the list is order on the wire. First every broker learns what has changed, settings and entries among it:
what follows is done under them. Removed topics come first as UpdateMetadata, so that no client finds them any more,
then StopReplica collects their data. New and changed partitions go to their replicas by LeaderAndIsr before
UpdateMetadata shows them to clients.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from pybroker.metadata.control_messages import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    SECURITY_PROTOCOL_NUMBERS,
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    LeaderAndIsrType,
    LiveLeader,
    RestoreReplicasRequest,
    RestoreTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateCluster,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker.metadata.deletion_records import DELETING, UNDELETING, DeletionRecord
from pybroker.metadata.image import BrokerImage, ClusterImage, ImageDelta, PartitionImage, TopicImage

Messages = dict[int, list[ControlRequest]]
"""Messages in order, by receiving broker."""


class Broadcast:
    """Builds messages of one controller."""

    def __init__(self, controller_id: int, between: str | None) -> None:
        """`between`: the listener that brokers use among themselves, if there is one."""
        self._controller_id = controller_id
        self._between = between

    def full(self, image: ClusterImage, broker_id: int, number: int) -> list[ControlRequest]:
        """What a broker gets first from a controller: the whole image as of change `number`, everything that it
        replicates (FULL), and everything that clients may see."""
        broker = image.brokers[broker_id]
        topics = list(image.topics.values())
        return [
            self.whole(image, broker_id, number),
            self._leader_and_isr(
                image, broker, [(topic, range(len(topic.partitions)), ()) for topic in topics], full=True
            ),
            self._update_metadata(image, broker, [_shown(topic, range(len(topic.partitions))) for topic in topics]),
        ]

    def whole(self, image: ClusterImage, broker_id: int, number: int) -> UpdateCluster:
        """The whole image as of change `number`."""
        return UpdateCluster(self._controller_id, image.controller_epoch, image.brokers[broker_id].epoch, number, image)

    def changes(self, before: ClusterImage, after: ClusterImage, delta: ImageDelta, number: int) -> Messages:
        """What each live broker must hear of change `number`. One that the change brings hears everything."""
        if delta.empty:
            return {}
        new = {broker.broker_id for broker in delta.brokers}
        shown = [_hidden(topic) for topic in delta.removed]
        states = [(topic, _changed(before.topics.get(topic.name), topic)) for topic in delta.topics]
        states = [(topic, indexes) for topic, indexes in states if indexes]
        lost = _lost(before, states)
        messages: Messages = {}
        for broker in after.brokers.values():
            if broker.broker_id in new:
                messages[broker.broker_id] = self.full(after, broker.broker_id, number)
                continue
            out: list[ControlRequest] = [
                UpdateCluster(self._controller_id, after.controller_epoch, broker.epoch, number, delta)
            ]
            if shown:
                out.append(self._update_metadata(after, broker, shown))
            stop = self._stop(after, broker, delta, lost.get(broker.broker_id, ()))
            if stop is not None:
                out.append(stop)
            restore = self.restore(after, broker.broker_id, delta.deletions)
            if restore is not None:
                out.append(restore)
            orders = []
            for topic, indexes in states:
                mine = [
                    index
                    for index in indexes
                    if broker.broker_id in topic.partitions[index].replicas and _is_an_order(before, topic, index)
                ]
                if mine:
                    orders.append((topic, mine, _new(before, topic, mine, broker.broker_id)))
            if orders:
                out.append(self._leader_and_isr(after, broker, orders, full=False))
            if states or delta.brokers or delta.lost_brokers:
                out.append(self._update_metadata(after, broker, [_shown(topic, indexes) for topic, indexes in states]))
            messages[broker.broker_id] = out
        return messages

    def stop_again(self, image: ClusterImage, broker_id: int, records: Iterable[DeletionRecord]) -> StopReplicaRequest:
        """StopReplica for deletions that a broker has not confirmed."""
        topics = [
            _stopped(record, [index for index, replicas in record.partitions.items() if broker_id in replicas])
            for record in records
        ]
        broker = image.brokers[broker_id]
        return StopReplicaRequest(self._controller_id, image.controller_epoch, broker.epoch, True, topics)

    def _stop(
        self, image: ClusterImage, broker: BrokerImage, delta: ImageDelta, lost: Sequence[tuple[TopicImage, list[int]]]
    ) -> StopReplicaRequest | None:
        """What was deleted, and what the broker has lost by a reassignment."""
        topics = []
        for record in delta.deletions:
            if record.state != DELETING:
                continue
            mine = [index for index, replicas in record.partitions.items() if broker.broker_id in replicas]
            if mine:
                topics.append(_stopped(record, mine))
        topics += [_removed(topic, indexes) for topic, indexes in lost]
        if not topics:
            return None
        return StopReplicaRequest(self._controller_id, image.controller_epoch, broker.epoch, True, topics)

    def restore(
        self, image: ClusterImage, broker_id: int, records: Iterable[DeletionRecord]
    ) -> RestoreReplicasRequest | None:
        """The order to move data of topics that are being undeleted back; None if a broker has no part in it."""
        topics = []
        for record in records:
            mine = tuple(index for index, replicas in record.partitions.items() if broker_id in replicas)
            if record.state == UNDELETING and record.restore_as is not None and mine:
                topics.append(RestoreTopicState(record.restore_as, record.topic_id, mine))
        if not topics:
            return None
        epoch = image.brokers[broker_id].epoch
        return RestoreReplicasRequest(self._controller_id, image.controller_epoch, epoch, tuple(topics))

    def _leader_and_isr(
        self,
        image: ClusterImage,
        broker: BrokerImage,
        topics: Iterable[tuple[TopicImage, Sequence[int], Container[int]]],
        *,
        full: bool,
    ) -> LeaderAndIsrRequest:
        leaders: set[int] = set()
        states = []
        for topic, indexes, new in topics:
            partitions = []
            for index in indexes:
                partition = topic.partitions[index]
                if full and broker.broker_id not in partition.replicas:
                    continue
                leaders.add(partition.leader)
                partitions.append(_state(index, partition, index in new, topic.lineage.start_offset(index)))
            if partitions:
                states.append(LeaderAndIsrTopicState(topic.name, topic.topic_id, partitions))
        live = [
            _reached_at(image.brokers[leader], self._between)
            for leader in sorted(leaders)
            if leader in image.brokers
        ]
        kind = LeaderAndIsrType.FULL if full else LeaderAndIsrType.INCREMENTAL
        return LeaderAndIsrRequest(self._controller_id, image.controller_epoch, broker.epoch, int(kind), states, live)

    def _update_metadata(
        self, image: ClusterImage, broker: BrokerImage, topics: list[UpdateMetadataTopicState]
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            self._controller_id, image.controller_epoch, broker.epoch, topics, _live_brokers(image)
        )


def _reached_at(broker: BrokerImage, between: str | None) -> LiveLeader:
    """Where followers find it."""
    endpoint = next((one for one in broker.endpoints if one.listener == between), broker.endpoints[0])
    return LiveLeader(broker.broker_id, endpoint.host, endpoint.port)


def _is_an_order(before: ClusterImage, topic: TopicImage, index: int) -> bool:
    """Whether replicas have something to do. Who is in sync was the leader's own proposal, which is answered."""
    known = before.topics.get(topic.name)
    if known is None or known.topic_id != topic.topic_id or index >= len(known.partitions):
        return True
    old, new = known.partitions[index], topic.partitions[index]
    return (old.leader, old.leader_epoch, old.replicas) != (new.leader, new.leader_epoch, new.replicas)


def _new(before: ClusterImage, topic: TopicImage, indexes: Iterable[int], broker_id: int) -> Container[int]:
    """Of which partitions the broker makes empty logs: all of a new topic, and what it gets by a reassignment. A topic
    that was undeleted has its data."""
    known = before.topics.get(topic.name)
    if known is None or known.topic_id != topic.topic_id:
        return () if topic.topic_id in before.deletions else range(len(topic.partitions))
    old = known.partitions
    return [index for index in indexes if index >= len(old) or broker_id not in old[index].replicas]


def _lost(
    before: ClusterImage, states: Iterable[tuple[TopicImage, Sequence[int]]]
) -> dict[int, list[tuple[TopicImage, list[int]]]]:
    """By broker, the partitions of which it is no replica any more."""
    found: dict[int, list[tuple[TopicImage, list[int]]]] = {}
    for topic, indexes in states:
        known = before.topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id:
            continue
        here: dict[int, list[int]] = {}
        for index in indexes:
            old = known.partitions[index].replicas if index < len(known.partitions) else ()
            new = topic.partitions[index].replicas
            if old is not new:
                for broker_id in old:
                    if broker_id not in new:
                        here.setdefault(broker_id, []).append(index)
        for broker_id, mine in here.items():
            found.setdefault(broker_id, []).append((topic, mine))
    return found


def _removed(topic: TopicImage, indexes: Sequence[int]) -> StopReplicaTopicState:
    return StopReplicaTopicState(
        topic.topic_id,
        [StopReplicaPartitionState(index, topic.partitions[index].leader_epoch, True) for index in indexes],
    )


def _changed(before: TopicImage | None, after: TopicImage) -> Sequence[int]:
    if before is None or before.topic_id != after.topic_id:
        return range(len(after.partitions))
    known = len(before.partitions)
    return [
        index
        for index, partition in enumerate(after.partitions)
        if index >= known or before.partitions[index] is not partition
    ]


def _state(index: int, partition: PartitionImage, new: bool, start_offset: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        index,
        partition.controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.state_version,
        partition.replicas,
        partition.adding_replicas,
        partition.removing_replicas,
        new,
        start_offset,
    )


def _shown(topic: TopicImage, indexes: Sequence[int]) -> UpdateMetadataTopicState:
    partitions = topic.partitions
    return UpdateMetadataTopicState(
        topic.name, topic.topic_id, [_metadata_state(index, partitions[index]) for index in indexes]
    )


def _metadata_state(index: int, partition: PartitionImage) -> UpdateMetadataPartitionState:
    offline = () if partition.leader >= 0 else partition.replicas
    return UpdateMetadataPartitionState(
        index,
        partition.controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.state_version,
        partition.replicas,
        offline,
    )


def _hidden(topic: TopicImage) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic.name,
        topic.topic_id,
        [
            UpdateMetadataPartitionState(
                index,
                partition.controller_epoch,
                LEADER_DURING_DELETE,
                partition.leader_epoch,
                (),
                partition.state_version,
                (),
                (),
            )
            for index, partition in enumerate(topic.partitions)
        ],
    )


def _stopped(record: DeletionRecord, indexes: Sequence[int]) -> StopReplicaTopicState:
    return StopReplicaTopicState(
        record.topic_id, [StopReplicaPartitionState(index, EPOCH_DURING_DELETE, True) for index in indexes]
    )


def _live_brokers(image: ClusterImage) -> list[UpdateMetadataBroker]:
    return [
        UpdateMetadataBroker(
            broker.broker_id,
            tuple(
                UpdateMetadataEndpoint(
                    endpoint.port,
                    endpoint.host,
                    endpoint.listener,
                    SECURITY_PROTOCOL_NUMBERS[endpoint.security_protocol],
                )
                for endpoint in broker.endpoints
            ),
            broker.rack,
        )
        for broker in image.brokers.values()
    ]
