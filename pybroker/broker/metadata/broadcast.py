"""Messages to each broker for a change of the image. Pure.

A broker gets the messages in the order of the list. The first is the change itself with its settings and ACLs, because
brokers need them for the requests that follow. Next, UpdateMetadata removes deleted topics from the clients' view, and
StopReplica stages their data. Then LeaderAndIsr sends new and changed partitions to their replicas, and the last
UpdateMetadata shows these partitions to clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pybroker.broker.metadata.control_messages import (
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
    partition_state,
)
from pybroker.broker.metadata.deletion_records import DELETING, UNDELETING, DeletionRecord
from pybroker.broker.metadata.image import (
    BrokerImage,
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
    begins_empty,
    with_changed_states,
)

Messages = dict[int, list[ControlRequest]]
"""Receiving broker → messages in order."""
SHOWN_AT_ONCE_MAX = 10_000
"""Limit of partitions per UpdateMetadata among a broker's first messages."""
IsNew = Callable[[int, int], bool]
"""Returns whether a broker creates an empty log for a partition. Arguments: partition index, broker id."""


class Broadcast:
    """Builds the messages of one controller."""

    def __init__(self, controller_id: int, between: str | None) -> None:
        """`between` is the name of the inter-broker listener; None if there is none."""
        self._controller_id = controller_id
        self._between = between

    def whole(self, image: ClusterImage, broker_id: int, number: int) -> UpdateCluster:
        """Return a message with the whole image after change `number`."""
        return UpdateCluster(self._controller_id, image.controller_epoch, image.brokers[broker_id].epoch, number, image)

    def changes(
        self,
        before: ClusterImage,
        after: ClusterImage,
        delta: ImageDelta,
        number: int,
        receivers: Collection[int] | None = None,
    ) -> Messages:
        """Return the messages about change `number`, for each live broker or for the `receivers`. A broker that the
        change adds gets the whole image, all its replicas (type FULL), and the metadata for clients.

        Receivers must not change the state objects, which all messages share. A copy of 200,000 partitions for each of
        100 brokers would be too expensive.
        """
        if delta.empty:
            return {}
        addressed = after.brokers.keys() if receivers is None else after.brokers.keys() & receivers
        new = addressed & {broker.broker_id for broker in delta.brokers}
        states = [(topic, _changed(before.topics.get(topic.name), topic)) for topic in delta.topics]
        states = [(topic, indexes) for topic, indexes in states if indexes]
        lost = _lost(before, delta.topics)
        hidden = [_hidden(topic) for topic in delta.removed]
        shown = [_shown(topic, indexes) for topic, indexes in states]
        shows = bool(states or delta.brokers or delta.lost_brokers)
        orders = _orders(
            addressed - new,
            (
                (topic, [index for index in indexes if _is_an_order(before, topic, index)], _is_new(before, topic))
                for topic, indexes in states
            ),
        )
        live = _live_brokers(after)
        sent = with_changed_states(before, delta)
        messages: Messages = {}
        for broker in after.brokers.values():
            if broker.broker_id in new or broker.broker_id not in addressed:
                continue
            mine = orders[broker.broker_id]
            out: list[ControlRequest | None] = [
                UpdateCluster(self._controller_id, after.controller_epoch, broker.epoch, number, sent),
                self._update_metadata(after, broker, hidden, live) if hidden else None,
                self._stop(before, after, broker, delta, lost.get(broker.broker_id, ())),
                self.restore(after, broker.broker_id, delta.deletions),
                self._leader_and_isr(after, broker, mine, LeaderAndIsrType.INCREMENTAL) if mine else None,
                self._update_metadata(after, broker, shown, live) if shows else None,
            ]
            messages[broker.broker_id] = [message for message in out if message is not None]
        if new:
            messages |= self.introductions(after, new, number)
        return messages

    def introductions(self, image: ClusterImage, new: Collection[int], number: int) -> Messages:
        """Return the first messages for these brokers."""
        live = _live_brokers(image)
        every = [(topic, range(len(topic.partitions)), _not_new) for topic in image.topics.values()]
        shown = [_shown(topic, indexes) for topic, indexes, _ in every]
        pieces, orders = _pieces(shown), _orders(new, every)
        messages: Messages = {}
        for broker in image.brokers.values():
            if broker.broker_id in new:
                messages[broker.broker_id] = [
                    self.whole(image, broker.broker_id, number),
                    self._leader_and_isr(image, broker, orders[broker.broker_id], LeaderAndIsrType.FULL),
                    *(self._update_metadata(image, broker, piece, live) for piece in pieces),
                ]
        return messages

    def controller_shown(self, image: ClusterImage, broker_id: int) -> UpdateMetadataRequest:
        """Return an UpdateMetadata with the new controller and no topics."""
        return self._update_metadata(image, image.brokers[broker_id], [], _live_brokers(image))

    def shown(
        self, image: ClusterImage, broker_id: int, topics: list[UpdateMetadataTopicState]
    ) -> UpdateMetadataRequest:
        """Return an UpdateMetadata with these topics."""
        return self._update_metadata(image, image.brokers[broker_id], topics, _live_brokers(image))

    def stop_again(self, image: ClusterImage, broker_id: int, records: Iterable[DeletionRecord]) -> StopReplicaRequest:
        """Return StopReplica for the deletions that a broker has not confirmed."""
        topics = [_stopped(record, record.held_by(broker_id)) for record in records]
        broker = image.brokers[broker_id]
        return StopReplicaRequest(self._controller_id, image.controller_epoch, broker.epoch, True, topics)

    def leave_again(
        self, image: ClusterImage, broker_id: int, left: Iterable[tuple[TopicImage, Mapping[int, int]]]
    ) -> StopReplicaRequest:
        """Return StopReplica for removed replicas that a broker has not confirmed."""
        topics = [_departed(topic, epochs) for topic, epochs in left]
        epoch = image.brokers[broker_id].epoch
        return StopReplicaRequest(self._controller_id, image.controller_epoch, epoch, True, topics)

    def _stop(
        self,
        before: ClusterImage,
        image: ClusterImage,
        broker: BrokerImage,
        delta: ImageDelta,
        lost: Sequence[StopReplicaTopicState],
    ) -> StopReplicaRequest | None:
        """Return StopReplica for deleted topics and for replicas that a reassignment removes. If only the confirmations
        of a running deletion change, return nothing, because `Deletions` repeats the requests to other brokers."""
        topics = []
        for record in delta.deletions:
            mine = record.held_by(broker.broker_id) if record.state == DELETING else []
            known = before.deletions.get(record.topic_id)
            if known is not None and known.state == DELETING and known.held_by(broker.broker_id) == mine:
                continue
            if mine:
                topics.append(_stopped(record, mine))
        topics += lost
        if not topics:
            return None
        return StopReplicaRequest(self._controller_id, image.controller_epoch, broker.epoch, True, topics)

    def restore(
        self, image: ClusterImage, broker_id: int, records: Iterable[DeletionRecord]
    ) -> RestoreReplicasRequest | None:
        """Return the request to move data of undeleted topics back; None if the broker has no replicas of them."""
        topics = []
        for record in records:
            mine = tuple(index for index in record.partitions if broker_id in record.replicas(index))
            if record.state == UNDELETING and record.restore_as is not None and mine:
                topics.append(RestoreTopicState(record.restore_as, record.topic_id, mine))
        if not topics:
            return None
        epoch = image.brokers[broker_id].epoch
        return RestoreReplicasRequest(self._controller_id, image.controller_epoch, epoch, tuple(topics))

    def _leader_and_isr(
        self, image: ClusterImage, broker: BrokerImage, states: list[LeaderAndIsrTopicState], kind: LeaderAndIsrType
    ) -> LeaderAndIsrRequest:
        leaders = {partition.leader for topic in states for partition in topic.partition_states}
        live = [
            _reached_at(image.brokers[leader], self._between)
            for leader in sorted(leaders)
            if leader in image.brokers
        ]
        return LeaderAndIsrRequest(self._controller_id, image.controller_epoch, broker.epoch, int(kind), states, live)

    def _update_metadata(
        self,
        image: ClusterImage,
        broker: BrokerImage,
        topics: list[UpdateMetadataTopicState],
        live: list[UpdateMetadataBroker],
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(self._controller_id, image.controller_epoch, broker.epoch, topics, live)


def _pieces(topics: Iterable[UpdateMetadataTopicState]) -> list[list[UpdateMetadataTopicState]]:
    """Split topics into parts that are quick to encode; there is at least one part."""
    pieces: list[list[UpdateMetadataTopicState]] = [[]]
    size = 0
    for topic in topics:
        if pieces[-1] and size + len(topic.partition_states) > SHOWN_AT_ONCE_MAX:
            pieces.append([])
            size = 0
        pieces[-1].append(topic)
        size += len(topic.partition_states)
    return pieces


def _orders(
    brokers: Collection[int], topics: Iterable[tuple[TopicImage, Sequence[int], IsNew]]
) -> dict[int, list[LeaderAndIsrTopicState]]:
    """Return, for each broker, the states of the partitions that have a replica on the broker."""
    found: dict[int, list[LeaderAndIsrTopicState]] = {broker_id: [] for broker_id in brokers}
    for topic, indexes, is_new in topics:
        mine: dict[int, list[LeaderAndIsrPartitionState]] = {}
        for index in indexes:
            partition = topic.partitions[index]
            known: dict[bool, LeaderAndIsrPartitionState] = {}
            for replica in partition.replicas:
                if replica in found:
                    new = is_new(index, replica) or begins_empty(partition, replica)
                    if new not in known:
                        known[new] = partition_state(index, partition, new, topic.lineage.start_offset(index))
                    mine.setdefault(replica, []).append(known[new])
        for replica, states in mine.items():
            found[replica].append(LeaderAndIsrTopicState(topic.name, topic.topic_id, states))
    return found


def _reached_at(broker: BrokerImage, between: str | None) -> LiveLeader:
    """Return the address at which followers can reach a broker."""
    endpoint = next((endpoint for endpoint in broker.endpoints if endpoint.listener == between), broker.endpoints[0])
    return LiveLeader(broker.broker_id, endpoint.host, endpoint.port)


def _is_an_order(before: ClusterImage, topic: TopicImage, index: int) -> bool:
    """Return whether the replicas must act on the change. They need not act if only the ISR changes, because the leader
    has proposed this change and gets the reply."""
    known = before.topics.get(topic.name)
    if known is None or known.topic_id != topic.topic_id or index >= len(known.partitions):
        return True
    old, new = known.partitions[index], topic.partitions[index]
    return (old.leader, old.leader_epoch, old.replicas) != (new.leader, new.leader_epoch, new.replicas)


def _is_new(before: ClusterImage, topic: TopicImage) -> IsNew:
    """Return a function that tells for which partitions a broker creates empty logs: all partitions of a new topic, and
    partitions that a reassignment adds to the broker. An undeleted topic already has its data."""
    known = before.topics.get(topic.name)
    if known is None or known.topic_id != topic.topic_id:
        every = topic.topic_id not in before.deletions
        return lambda index, broker_id: every
    old = known.partitions
    return lambda index, broker_id: index >= len(old) or broker_id not in old[index].replicas


def _lost(before: ClusterImage, topics: Iterable[TopicImage]) -> dict[int, list[StopReplicaTopicState]]:
    """Return, by broker, the partitions of which the broker is no longer a replica."""
    found: dict[int, list[StopReplicaTopicState]] = {}
    for topic in topics:
        if not topic.departed:
            continue
        known = before.topics.get(topic.name)
        known_departed = {} if known is None or known.topic_id != topic.topic_id else known.departed
        if known_departed is topic.departed:
            continue
        here: dict[int, dict[int, int]] = {}
        for index, brokers in topic.departed.items():
            for broker_id, epoch in brokers.items():
                if known_departed.get(index, {}).get(broker_id) != epoch:
                    here.setdefault(broker_id, {})[index] = epoch
        for broker_id, mine in here.items():
            found.setdefault(broker_id, []).append(_departed(topic, mine))
    return found


def _departed(topic: TopicImage, epochs: Mapping[int, int]) -> StopReplicaTopicState:
    """Return the StopReplica state. `epochs`: partition → leader epoch of the removal. A broker that has become a
    replica again knows a later epoch, and ignores the request."""
    return StopReplicaTopicState(
        topic.name,
        topic.topic_id,
        [StopReplicaPartitionState(index, epoch, True) for index, epoch in epochs.items()],
    )


def _not_new(index: int, broker_id: int) -> bool:
    """Return False, because a broker that gets its partitions again must not create logs."""
    return False


def _changed(before: TopicImage | None, after: TopicImage) -> Sequence[int]:
    if before is None or before.topic_id != after.topic_id:
        return range(len(after.partitions))
    known = len(before.partitions)
    return [
        index
        for index, partition in enumerate(after.partitions)
        if index >= known or (before.partitions[index] is not partition and before.partitions[index] != partition)
    ]


def _shown(topic: TopicImage, indexes: Sequence[int]) -> UpdateMetadataTopicState:
    partitions = topic.partitions
    return UpdateMetadataTopicState(
        topic.name, topic.topic_id, [metadata_state(index, partitions[index]) for index in indexes]
    )


def metadata_state(index: int, partition: PartitionImage) -> UpdateMetadataPartitionState:
    """Return the state of a partition as clients see it."""
    return UpdateMetadataPartitionState(
        index,
        partition.controller_epoch,
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.state_version,
        partition.replicas,
        partition.offline,
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
        record.topic,
        record.topic_id,
        [StopReplicaPartitionState(index, EPOCH_DURING_DELETE, True) for index in indexes],
        record.leader_epoch_max,
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
