"""What a controller says to brokers: LeaderAndIsr v5, StopReplica v4, UpdateMetadata v7, in the seeds' shape (groups
F, H, K; X12–X14).

With the embedded store they travel as objects, from the controller's channel to the handlers in `api` (R15).
Controller and replicas share these nouns and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from pybroker.metadata.acls import AclBinding
from pybroker.native import Uuid

NO_ERROR = 0


class LeaderAndIsrType(IntEnum):
    """Whether partitions that are missing in the request mean anything (checklist 64, 65). 0 and unknown values are
    treated as INCREMENTAL: they never delete (A15)."""

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
    """Where the log begins if it is new: above 0 it continues an earlier incarnation. A tag of ours (X1)."""


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
    """Version 5."""

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


class LeaderAndIsrResponse(msgspec.Struct):
    """Version 5: no names."""

    error_code: int
    topics: list[TopicPartitionErrors] = []


class StopReplicaPartitionState(msgspec.Struct, gc=False):
    """One replica to stop. leader_epoch -2 = the topic is deleted."""

    partition_index: int
    leader_epoch: int
    delete_partition: bool


class StopReplicaTopicState(msgspec.Struct):
    """By id only: a request for a dead incarnation cannot touch a live one (checklist 86)."""

    topic_id: Uuid
    partition_states: list[StopReplicaPartitionState]


EPOCH_DURING_DELETE = -2
"""Leader epoch in StopReplica that says: whatever epoch you know, the topic is deleted."""


class StopReplicaRequest(msgspec.Struct):
    """Version 4."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    delete_partitions: bool
    topic_states: list[StopReplicaTopicState]


class StopReplicaResponse(msgspec.Struct):
    """Version 4."""

    error_code: int
    topics: list[TopicPartitionErrors] = []


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
    """Version 7. `live_brokers` is always the whole list."""

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


class TopicConfigState(msgspec.Struct, frozen=True):
    """What is set for one topic (all of it)."""

    topic_id: Uuid
    topic_name: str
    config: Mapping[str, str]


class UpdateConfigs(msgspec.Struct, frozen=True):
    """Dynamic configs that changed. No Kafka message: in a cluster each broker reads `/config` itself; with the
    embedded store the controller's channel carries it, so that it keeps its place between LeaderAndIsr and the
    answer."""

    topics: tuple[TopicConfigState, ...]
    brokers: Mapping[str, Mapping[str, str]]
    """By broker id as text, or "<default>"."""


class UpdateConfigsResponse(msgspec.Struct, frozen=True):
    """Applied."""

    error_code: int = 0


class UpdateSecurity(msgspec.Struct, frozen=True):
    """Access control entries and users that changed; like UpdateConfigs no message of Kafka's."""

    acls_added: tuple[AclBinding, ...] = ()
    acls_removed: tuple[AclBinding, ...] = ()
    users: Mapping[str, Mapping[str, str]] = {}
    """All that is stored for each user that changed."""
    full: bool = False
    """This is all there is; what the broker knew before is void."""


class UpdateSecurityResponse(msgspec.Struct, frozen=True):
    """Requests that start from now on obey it."""

    error_code: int = 0


ControlRequest = (
    LeaderAndIsrRequest
    | StopReplicaRequest
    | RestoreReplicasRequest
    | UpdateMetadataRequest
    | UpdateConfigs
    | UpdateSecurity
)
ControlResponse = (
    LeaderAndIsrResponse
    | StopReplicaResponse
    | RestoreReplicasResponse
    | UpdateMetadataResponse
    | UpdateConfigsResponse
    | UpdateSecurityResponse
)
