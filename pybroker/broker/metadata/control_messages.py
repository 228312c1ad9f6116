"""What a controller says to brokers, and what they answer: LeaderAndIsr v5, StopReplica v4 and UpdateMetadata v7 as
KIP-516 has them, and the messages that Kafka does not have. To brokers that know no topic ids
(`inter.broker.protocol.version` below 2.8) the three go in the versions before, by name: LeaderAndIsr v4 without type,
StopReplica v3, UpdateMetadata v6.

With the embedded store they travel as objects, from the controller's channel to `api.control`. Controller and replicas
share these nouns and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage
from pybroker.native import Uuid

NO_ERROR = 0


class LeaderAndIsrType(IntEnum):
    """Whether partitions that are missing in the request mean anything (checklist 64, 65). 0 and unknown values are
    treated as INCREMENTAL: they never delete."""

    UNKNOWN = 0
    INCREMENTAL = 1
    FULL = 2


class LeaderAndIsrPartitionState(msgspec.Struct, gc=False):
    """State of one partition that the receiver is a replica of."""

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
    """Where the log begins if it is new: above 0 it continues an earlier incarnation. A tag of ours."""


class LeaderAndIsrTopicState(msgspec.Struct):
    """The partitions of one topic."""

    topic_name: str
    topic_id: Uuid
    partition_states: list[LeaderAndIsrPartitionState]


class LiveLeader(msgspec.Struct, frozen=True):
    """Where a leader can be reached by its followers."""

    broker_id: int
    host_name: str
    port: int


class LeaderAndIsrRequest(msgspec.Struct):
    """Version 5; in version 4 `type` and topic ids are not on the wire."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    type: int
    topic_states: list[LeaderAndIsrTopicState]
    live_leaders: list[LiveLeader]


class PartitionError(msgspec.Struct, gc=False):
    """Outcome for one partition."""

    partition_index: int
    error_code: int


class TopicPartitionErrors(msgspec.Struct):
    """Outcomes grouped under a topic id."""

    topic_id: Uuid
    partition_errors: list[PartitionError]


class NamedPartitionError(msgspec.Struct, gc=False):
    """Outcome for one partition, where topics go by name."""

    topic_name: str
    partition_index: int
    error_code: int


class LeaderAndIsrResponse(msgspec.Struct):
    """Version 5: no names; version 4: nothing but names."""

    error_code: int
    topics: list[TopicPartitionErrors] = []
    named_errors: list[NamedPartitionError] = []


class StopReplicaPartitionState(msgspec.Struct, gc=False):
    """One replica to stop. leader_epoch -2 = the topic is deleted."""

    partition_index: int
    leader_epoch: int
    delete_partition: bool


class StopReplicaTopicState(msgspec.Struct):
    """In version 4 by id only: a request for a dead incarnation cannot touch a live one (checklist 86). In version 3 by
    name only: leader epochs tell incarnations apart."""

    topic_name: str
    """"": there is none."""
    topic_id: Uuid
    partition_states: list[StopReplicaPartitionState]
    last_epoch: int = -1
    """The highest leader epoch of a deleted incarnation: what has a higher one is a successor. A tag of ours in version
    3; -1: not told."""


EPOCH_DURING_DELETE = -2
"""Leader epoch in StopReplica that says: whatever epoch you know, the topic is deleted."""


class StopReplicaRequest(msgspec.Struct):
    """Version 4; in version 3 `delete_partitions` is not on the wire."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    delete_partitions: bool
    topic_states: list[StopReplicaTopicState]


class StopReplicaResponse(msgspec.Struct):
    """Version 4: no names; version 3: nothing but names."""

    error_code: int
    topics: list[TopicPartitionErrors] = []
    named_errors: list[NamedPartitionError] = []


class RestoreTopicState(msgspec.Struct, frozen=True):
    """Partitions of a deleted topic that the receiver may still hold, and the name that they get."""

    topic_name: str
    topic_id: Uuid
    partitions: tuple[int, ...]


class RestoreReplicasRequest(msgspec.Struct, frozen=True):
    """Undelete: move what waits for removal back, unserved; LeaderAndIsr follows when every replica has done so. No
    Kafka message: with the embedded store it travels as an object."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topic_states: tuple[RestoreTopicState, ...]


class RestoreReplicasResponse(msgspec.Struct, frozen=True):
    """An answer for each partition."""

    error_code: int
    topics: tuple[TopicPartitionErrors, ...] = ()


class UpdateMetadataPartitionState(msgspec.Struct, frozen=True, gc=False):
    """What clients may know of a partition. leader -1: none; leader -2: the topic is deleted."""

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
    """All partitions of a topic whose state changed."""

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
    """Version 7; in version 6 topic ids are not on the wire. `live_brokers` is always the whole list."""

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
    """What has changed in the cluster, before the orders that follow from it: settings, for one, are in force before a
    replica is opened under them. No message of Kafka's.

    There is one order of changes for each controller epoch, and every broker gets all of them. What does not follow on
    what a broker knows is refused with INVALID_UPDATE_VERSION; it then gets everything again.
    """

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    number: int
    """Of the change in that order; with a whole image that of the last change in it."""
    change: ImageDelta | ClusterImage
    """The change, or all that there is: what a broker gets first."""


class UpdateClusterResponse(msgspec.Struct, frozen=True):
    """Whoever asks this broker from now on is answered from it, and its settings are in force."""

    error_code: int = 0


class CloseTopics(msgspec.Struct, frozen=True):
    """Before topics are deleted or truncated: what the receiver leads of them takes no more appends, and groups that it
    coordinates no more commits, until ReopenTopics. No message of Kafka's."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topics: tuple[Uuid, ...]
    number: int = 0
    """Of the closing, under this controller; its ReopenTopics has the same. 0: from a controller that does not number
    them."""


class ClosedTopic(msgspec.Struct, frozen=True):
    """What one broker has of a topic, and nothing will be added to."""

    topic_id: Uuid
    ends: Mapping[int, tuple[int, int]]
    """Log start and log end of the partitions that it leads."""
    offsets: tuple[Mapping[str, Any], ...]
    """What groups have committed, in the form of the deletion record."""


class CloseTopicsResponse(msgspec.Struct, frozen=True):
    """Comes when what was taken before is on disk."""

    error_code: int = 0
    topics: tuple[ClosedTopic, ...] = ()


class ReopenTopics(msgspec.Struct, frozen=True):
    """The decision is made: what still lives takes appends and commits again. Follows on each CloseTopics."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topics: tuple[Uuid, ...]
    number: int = 0
    """As in its CloseTopics."""


class ReopenTopicsResponse(msgspec.Struct, frozen=True):
    """Done."""

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
    """The response that says of a request, as a whole, that it was not obeyed."""
    return _RESPONSES[type(request)](error_code)


def partition_state(index: int, partition: PartitionImage, new: bool, start_offset: int) -> LeaderAndIsrPartitionState:
    """Return the state of a partition as its replicas learn it; `new`: their logs do not exist yet."""
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
