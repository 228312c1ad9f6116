"""Messages from the controller to brokers, and their responses: LeaderAndIsr v5, StopReplica v4 and UpdateMetadata v7
of KIP-516, and messages that Kafka does not have. Brokers without topic ids (`inter.broker.protocol.version` below 2.8)
get the previous versions, which use names: LeaderAndIsr v4 (without type), StopReplica v3, UpdateMetadata v6.

With the embedded store, the controller's channel passes them to `api.controller_messages` as objects. Controller and
replicas share only these types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage
from pybroker.native import Uuid


class LeaderAndIsrType(IntEnum):
    """Whether the receiver stops partitions that are missing in the request (KIP-516). Receivers treat 0 and unknown
    values as INCREMENTAL, with which they never delete a replica."""

    UNKNOWN = 0
    INCREMENTAL = 1
    FULL = 2


class LeaderAndIsrPartitionState(msgspec.Struct, gc=False):
    """State of one partition of which the receiver is a replica."""

    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    is_new: bool
    start_offset: int = 0
    """The offset at which a new log starts; above 0 if the log continues an earlier incarnation. A tagged field of
    pybroker."""


class LeaderAndIsrTopicState(msgspec.Struct):
    """The partitions of one topic."""

    topic_name: str
    topic_id: Uuid
    partition_states: list[LeaderAndIsrPartitionState]


class LiveLeader(msgspec.Struct, frozen=True):
    """The address of a leader for its followers."""

    broker_id: int
    host_name: str
    port: int


class LeaderAndIsrRequest(msgspec.Struct):
    """Version 5; version 4 has no `type` and no topic ids on the wire."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    type: int
    topic_states: list[LeaderAndIsrTopicState]
    live_leaders: list[LiveLeader]

    def partitions(self) -> Iterator[tuple[LeaderAndIsrTopicState, LeaderAndIsrPartitionState]]:
        """Yield all partitions with their topics."""
        return ((topic, state) for topic in self.topic_states for state in topic.partition_states)


class PartitionError(msgspec.Struct, gc=False):
    """Result of one partition."""

    partition_index: int
    error_code: int


class TopicPartitionErrors(msgspec.Struct):
    """Results by topic id."""

    topic_id: Uuid
    partition_errors: list[PartitionError]


class NamedPartitionError(msgspec.Struct, gc=False):
    """Result of one partition, in versions that use topic names."""

    topic_name: str
    partition_index: int
    error_code: int


class LeaderAndIsrResponse(msgspec.Struct):
    """Version 5 has topic ids; version 4 has topic names."""

    error_code: int
    topics: list[TopicPartitionErrors] = []
    named_errors: list[NamedPartitionError] = []


class StopReplicaPartitionState(msgspec.Struct, gc=False):
    """One replica to stop. leader_epoch -2: the topic is deleted."""

    partition_index: int
    leader_epoch: int
    delete_partition: bool


class StopReplicaTopicState(msgspec.Struct):
    """Version 4 names topics by id, so that a request for a deleted incarnation cannot affect the current incarnation.
    Version 3 names topics by name, and only leader epochs distinguish incarnations."""

    topic_name: str
    """Empty if the topic's name is unknown."""
    topic_id: Uuid
    partition_states: list[StopReplicaPartitionState]
    last_epoch: int = -1
    """The highest leader epoch of a deleted incarnation. A log with a higher epoch belongs to a later incarnation. A
    tagged field of pybroker in version 3; -1 if it is missing."""


EPOCH_DURING_DELETE = -2
"""Leader epoch in StopReplica for a deleted topic. It takes precedence over every known epoch."""


class StopReplicaRequest(msgspec.Struct):
    """Version 4; version 3 has no `delete_partitions` on the wire."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    delete_partitions: bool
    topic_states: list[StopReplicaTopicState]


class StopReplicaResponse(msgspec.Struct):
    """Version 4 has topic ids; version 3 has topic names."""

    error_code: int
    topics: list[TopicPartitionErrors] = []
    named_errors: list[NamedPartitionError] = []


class RestoreTopicState(msgspec.Struct, frozen=True):
    """Partitions of a deleted topic that the receiver may still have, and the name that the topic will get."""

    topic_name: str
    topic_id: Uuid
    partitions: tuple[int, ...]


class RestoreReplicasRequest(msgspec.Struct, frozen=True):
    """Undelete: the receiver moves staged data back, but does not serve it yet. When every replica has done so,
    LeaderAndIsr follows. Not a message of Kafka; with the embedded store it is passed as an object."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: tuple[RestoreTopicState, ...]


class RestoreReplicasResponse(msgspec.Struct, frozen=True):
    """A result for each partition."""

    error_code: int
    topics: tuple[TopicPartitionErrors, ...] = ()


class UpdateMetadataPartitionState(msgspec.Struct, frozen=True, gc=False):
    """A partition's metadata for clients. leader -1: no leader; leader -2: the topic is deleted."""

    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


LEADER_DURING_DELETE = -2


class UpdateMetadataTopicState(msgspec.Struct):
    """The partitions of a topic whose state has changed."""

    topic_name: str
    topic_id: Uuid
    partition_states: list[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(msgspec.Struct, frozen=True):
    """One listener of a broker."""

    port: int
    host: str
    listener: str
    security_protocol: int


class UpdateMetadataBroker(msgspec.Struct, frozen=True):
    """A live broker."""

    id: int
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None


class UpdateMetadataRequest(msgspec.Struct):
    """Version 7; version 6 has no topic ids on the wire. `live_brokers` always lists all live brokers."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: list[UpdateMetadataTopicState]
    live_brokers: list[UpdateMetadataBroker]


class UpdateMetadataResponse(msgspec.Struct):
    """Version 7."""

    error_code: int


SECURITY_PROTOCOL_NUMBERS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Numbers of security protocols on the wire."""


class UpdateCluster(msgspec.Struct, frozen=True):
    """A change of the cluster's metadata. The controller sends it before the requests that depend on it: for example, a
    broker applies new settings before it opens a replica that needs them. Not a message of Kafka.

    The changes of one controller epoch are numbered, and every broker gets all of them. If a change does not follow the
    last change that a broker has got, the broker refuses it with INVALID_UPDATE_VERSION, and then gets the whole image.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    number: int
    """The number of the change in this controller epoch; for a whole image, the number of the last change in it."""
    change: ImageDelta | ClusterImage
    """The change or, in the first message to a broker, the whole image."""


class UpdateClusterResponse(msgspec.Struct, frozen=True):
    """The broker sends it when it uses the changed metadata and has applied the settings in it."""

    error_code: int = 0


class CloseTopics(msgspec.Struct, frozen=True):
    """The write fence before topics are deleted or truncated. Until ReopenTopics, the receiver accepts no appends to
    their partitions, and its group coordinator accepts no commits. Not a message of Kafka."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topics: tuple[Uuid, ...]
    number: int = 0
    """The fence's number in this controller epoch, which ReopenTopics repeats. 0: the controller does not number
    fences."""


class ClosedTopic(msgspec.Struct, frozen=True):
    """One broker's state of a fenced topic."""

    topic_id: Uuid
    ends: Mapping[int, tuple[int, int]]
    """Partition → (log start offset, log end offset), for partitions that the broker leads."""
    offsets: tuple[Mapping[str, Any], ...]
    """The groups' committed offsets, in the form of the deletion record."""


class CloseTopicsResponse(msgspec.Struct, frozen=True):
    """The response to CloseTopics. The broker sends it when earlier appends and commits are on disk."""

    error_code: int = 0
    topics: tuple[ClosedTopic, ...] = ()


class ReopenTopics(msgspec.Struct, frozen=True):
    """Sent after each CloseTopics, when the controller has decided. Topics that still exist then accept appends and
    commits again.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topics: tuple[Uuid, ...]
    number: int = 0
    """The number of the CloseTopics whose fence it ends."""


class ReopenTopicsResponse(msgspec.Struct, frozen=True):
    error_code: int = 0


ControlRequest = (
    UpdateCluster
    | LeaderAndIsrRequest
    | StopReplicaRequest
    | RestoreReplicasRequest
    | UpdateMetadataRequest
    | CloseTopics
    | ReopenTopics
)
ControlResponse = (
    UpdateClusterResponse
    | LeaderAndIsrResponse
    | StopReplicaResponse
    | RestoreReplicasResponse
    | UpdateMetadataResponse
    | CloseTopicsResponse
    | ReopenTopicsResponse
)

_RESPONSES: dict[type, type[ControlResponse]] = {
    UpdateCluster: UpdateClusterResponse,
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
    RestoreReplicasRequest: RestoreReplicasResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
    CloseTopics: CloseTopicsResponse,
    ReopenTopics: ReopenTopicsResponse,
}


def refusal(request: ControlRequest, error_code: int) -> ControlResponse:
    """Return a response that refuses the whole request."""
    return _RESPONSES[type(request)](error_code)


def partition_state(index: int, partition: PartitionImage, new: bool, start_offset: int) -> LeaderAndIsrPartitionState:
    """Return the state of a partition for its replicas. `new`: the replicas' logs do not exist yet."""
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
