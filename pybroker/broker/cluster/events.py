"""Events that brokers submit to the controller, and their replies: plain values, so that another broker can send them.

Each event has one decision function, registered in `controller`. If a field has an id, the submitter resolves the name
to the id, so that a delayed event never applies to a later topic of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Generic, TypeVar

import msgspec

from pybroker.broker.metadata.acl_nodes import AclBinding, AclFilter
from pybroker.broker.metadata.ingest_records import IngestKey, IngestRecord, SeriesKey
from pybroker.broker.metadata.token_nodes import DelegationToken
from pybroker.errors import KafkaError
from pybroker.native import Uuid

R_co = TypeVar("R_co", covariant=True)

BY_BROKER = "pybroker"
"""The principal that a topic's history records if the broker itself created or deleted the topic, without a client's
request."""


class Event(msgspec.Struct, Generic[R_co], frozen=True):
    """A request to change the cluster's metadata; the parameter is the type of the reply."""


class CatchUp(Event[None], frozen=True):
    """A request that changes nothing. When its answer arrives, the submitter has received all earlier decisions."""


# --- topics -----------------------------------------------------------------------------------------------------------


class NewTopic(msgspec.Struct, frozen=True):
    """One topic to create. The submitter has validated name and configs; the decision function makes the checks that
    depend on the cluster."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: Mapping[int, tuple[int, ...]] | None
    """Replicas by partition. If the client chose them, the two numbers above are ignored."""
    config: Mapping[str, str]


class CreatedTopic(msgspec.Struct, frozen=True):
    """The result for one created topic; the id is ZERO with validate_only."""

    name: str
    topic_id: Uuid
    num_partitions: int
    replication_factor: int
    config: Mapping[str, str]


class CreateTopics(Event[list[CreatedTopic | KafkaError]], frozen=True):
    """Creation of topics. Reply: one result for each topic, in order."""

    topics: tuple[NewTopic, ...]
    validate_only: bool
    seed: int
    """Number that determines where placement starts; any number is valid."""
    now_ms: int
    created_by: str = ""
    """The principal for the topic's history."""
    automatic: bool = False
    """True if a client used the name and `auto.create.topics.enable` creates the topic."""


class DeletedTopic(msgspec.Struct, frozen=True):
    """The result for one deleted topic."""

    name: str
    topic_id: Uuid


class DeleteTopics(Event[list[DeletedTopic | KafkaError]], frozen=True):
    """Deletion of incarnations. Reply: one result for each incarnation, in order."""

    topics: tuple[Uuid, ...]
    deleted_by: str
    now_ms: int
    delay_ms: int


class Truncation(msgspec.Struct, frozen=True):
    """One topic to truncate."""

    topic_id: Uuid
    keep_offsets: bool
    """True: the new logs begin where the old logs end, and groups keep their offsets."""


class TruncatedTopic(msgspec.Struct, frozen=True):
    """The result for one truncated topic."""

    name: str
    old_id: Uuid
    topic_id: Uuid


class TruncateTopics(Event[list[TruncatedTopic | KafkaError]], frozen=True):
    """Truncation of topics. An empty incarnation replaces each topic, and the old incarnation is deleted. Reply: one
    result for each topic, in order.
    """

    topics: tuple[Truncation, ...]
    truncated_by: str
    now_ms: int
    delay_ms: int


class UndeletedTopic(msgspec.Struct, frozen=True):
    """The name of a topic that is live again, or whose replicas still move their data back."""

    name: str
    topic_id: Uuid


class UndeleteTopic(Event[UndeletedTopic | KafkaError], frozen=True):
    """Undelete of one deleted topic."""

    topic_id: Uuid
    new_name: str | None
    undeleted_by: str
    now_ms: int


class FoundTopic(msgspec.Struct, frozen=True):
    """Stray replicas of an unknown topic that a broker has staged."""

    topic_id: Uuid
    name: str
    """The topic name from the directories; "" if the directories are named by id."""
    partitions: tuple[int, ...]
    last_epoch: int
    """The highest leader epoch in the data."""


class FoundReplicas(Event[None], frozen=True):
    """Report of stray replicas of unknown topic ids on a broker. They are listed, so that an operator can undelete or
    delete them."""

    broker_id: int
    topics: tuple[FoundTopic, ...]
    now_ms: int


class PurgedTopic(msgspec.Struct, frozen=True):
    """A deleted topic whose data is removed earlier than planned. `remove_after_ms` is the time at which the new delay
    ends.
    """

    name: str
    topic_id: Uuid
    remove_after_ms: int


class PurgeTopics(Event[list[PurgedTopic | KafkaError]], frozen=True):
    """Shorter delay for deleted topics on every broker. Reply: one result for each topic, in order."""

    topics: tuple[Uuid, ...]
    purged_by: str
    now_ms: int
    delay_ms: int = 0
    """The new delay, counted from the deletion; 0: the data is removed at once, and an undelete is no longer
    possible."""


class CloseDeletions(Event[None], frozen=True):
    """Report that the delay has ended on a broker. The topics can then no longer be undeleted, and brokers may remove
    their data.
    """

    topics: tuple[Uuid, ...]


class OffsetsRestored(Event[None], frozen=True):
    """Report that the groups have got back the offsets from the deletion record of `topic_id`, as offsets of `target`.
    After an undelete, `target` is the topic itself; after a truncation, its successor.
    """

    topic_id: Uuid
    target: Uuid
    groups: tuple[str, ...]
    mark: int
    """`DeletionRecord.offsets_mark` of the offsets that were restored. The controller ignores the report if the record
    has later offsets."""


class KeepOffsets(Event[bool], frozen=True):
    """Committed offsets of a deleted topic that its deletion record lacks: when the controller fenced the topic, the
    broker that coordinates the groups answered too late or was loading the groups, or the offsets were part of an open
    transaction. Reply: whether the topic is live (again).
    """

    topic_id: Uuid
    offsets: tuple[Mapping[str, Any], ...]
    """In the form of the deletion record."""


class KeepOutcome(Event[tuple[Uuid, ...]], frozen=True):
    """Outcome of a transaction that wrote to topics which have been deleted since. Their deletion records store the
    outcome for an undelete. Reply: the topics among them that are live (again), to which the coordinator writes its
    markers.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    version: int
    """The transaction version."""
    partitions: tuple[tuple[Uuid, int], ...]


class OutcomesWritten(Event[None], frozen=True):
    """Report that the leaders have written the transaction markers of these partitions. The deletion record had stored
    these markers.
    """

    topic_id: Uuid
    partitions: tuple[int, ...]


class NewPartitions(msgspec.Struct, frozen=True):
    """More partitions for a topic, up to `total`."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None
    topic_id: Uuid | None = None
    """Set if the submitter has read the topic. The controller then refuses another incarnation of the name."""


class CreatePartitions(Event[list[KafkaError | None]], frozen=True):
    """Addition of partitions. Reply: None or the error for each topic, in order."""

    topics: tuple[NewPartitions, ...]
    validate_only: bool
    seed: int


class DropDeleteOrders(Event[None], frozen=True):
    """Removal of deletion requests in the format without topic ids that no controller will execute."""

    topics: tuple[str, ...]


# --- settings and security --------------------------------------------------------------------------------------------


class ConfigChange(msgspec.Struct, frozen=True):
    """New values of one topic, broker, group or client metrics subscription. None removes a setting."""

    resource: str
    """"topic", "broker", "group" or "client-metrics"."""
    name: str
    """"<default>" means all brokers."""
    changes: Mapping[str, str | None]
    replace: bool = False
    """True (AlterConfigs) removes all settings that are not in `changes`."""
    topic_id: Uuid | None = None
    """The incarnation that the submitter saw. The change never applies to a later incarnation of the same name."""
    topic_ids: bool = False
    """True if the change sets a protocol version with topic ids; topics without ids then get them."""
    version: int | None = None
    """Version of the settings that the submitter saw (-1: none were stored). If the version has changed, the error is
    INVALID_UPDATE_VERSION."""


class AlterConfigs(Event[list[KafkaError | None]], frozen=True):
    """Change of configs. Reply: None or the error for each change, in order. The submitter has validated the values."""

    changes: tuple[ConfigChange, ...]


class CreateAcls(Event[None], frozen=True):
    """Addition of ACLs, validated by the submitter. Existing ACLs stay."""

    bindings: tuple[AclBinding, ...]


class DeleteAcls(Event[list[tuple[AclBinding, ...]]], frozen=True):
    """Removal of the ACLs that match a filter. Reply: the matches of each filter."""

    filters: tuple[AclFilter, ...]


class UserChange(msgspec.Struct, frozen=True):
    """New credentials of a user by mechanism (as stored). None removes a credential, which must exist."""

    name: str
    credentials: Mapping[str, str | None]


class AlterUsers(Event[list[KafkaError | None]], frozen=True):
    """Change of credentials. Reply: None or the error for each user, in order. An event must not name a user twice."""

    changes: tuple[UserChange, ...]


class CreateToken(Event[None], frozen=True):
    """New delegation token, validated by the submitter."""

    token: DelegationToken


class ChangeToken(Event[int], frozen=True):
    """Change of a token's expiry. Reply: the expiry time, milliseconds since 1970. `expires_ms` None removes the token.
    `by` is the requesting principal; None if a broker removes an expired token."""

    token_id: str
    expires_ms: int | None
    now_ms: int
    by: str | None


class QuotaChange(msgspec.Struct, frozen=True):
    """New quotas of an entity (`metadata.quota_nodes`), as stored. None removes a quota if it exists."""

    entity: tuple[tuple[str, str | None], ...]
    values: Mapping[str, str | None]


class AlterClientQuotas(Event[list[KafkaError | None]], frozen=True):
    """Change of client quotas. Reply: None or the error for each entity, in order. The submitter has validated the
    values."""

    changes: tuple[QuotaChange, ...]


class UpgradeType(IntEnum):
    """Allowed direction of a feature level's change, numbered as on the wire (KIP-584, KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureChange(msgspec.Struct, frozen=True):
    """The new level of a feature."""

    name: str
    level: int
    upgrade: int
    """An UpgradeType."""


class UpdateFeatures(Event[None], frozen=True):
    """Change of all these features, or of none if there is an error. Each feature occurs once."""

    changes: tuple[FeatureChange, ...]
    validate_only: bool = False


# --- replication ------------------------------------------------------------------------------------------------------


class IsrChange(msgspec.Struct, frozen=True):
    """An ISR that a partition's leader proposes (KIP-497). The proposal is for the state that the leader knows."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Broker ids with the broker epochs that the leader has seen (KIP-903); -1 if unknown."""
    version: int


class IsrOutcome(msgspec.Struct, frozen=True):
    """The result of one proposal: `error_code` 0 with the written state, or the reason for the refusal with the current
    state."""

    error_code: int
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    version: int = -1


class AlterIsr(Event[list[IsrOutcome]], frozen=True):
    """ISR proposals of one leader. Reply: one result for each proposal, in order. KafkaError STALE_BROKER_EPOCH:
    another broker epoch is registered."""

    broker_id: int
    broker_epoch: int
    changes: tuple[IsrChange, ...]


class ReplicasOffline(Event[None], frozen=True):
    """Report that a broker cannot serve some replicas (failed log directory, quarantined metadata)."""

    broker_id: int
    partitions: tuple[tuple[Uuid, int], ...]
    broker_epoch: int = -1
    """The broker epoch of the report; -1 if the report is part of an answer to the controller, because the answer
    belongs to the current epoch.
    """


class LogEndsTold(Event[None], frozen=True):
    """Reports of log ends from replicas that may have lost records, in partitions without a leader. Also reports of
    in-sync replicas that have no log."""

    broker_id: int
    broker_epoch: int
    """The broker epoch of the report."""
    ends: tuple[tuple[Uuid, int, int, int], ...]
    """Topic id, partition, last leader epoch and log end, as in `LogEnd`."""


class ShutDownOutcome(msgspec.Struct, frozen=True):
    """Progress of a controlled shutdown."""

    remaining: tuple[tuple[str, int], ...] = ()
    """Names and indexes of the partitions that the broker still leads, because no other replica can lead them. Only in
    the last reply.
    """
    more: bool = False
    """True if more partitions have to move. The broker then submits the event again immediately."""


class ShutDownBroker(Event[ShutDownOutcome], frozen=True):
    """Controlled shutdown of a broker (KIP-49): for each partition that allows it, another replica becomes leader, and
    the broker leaves the ISR. Many partitions move in several decisions, so that other events run in between.
    KafkaError STALE_BROKER_EPOCH: another broker epoch is registered.
    """

    broker_id: int
    broker_epoch: int


class UnregisterBroker(Event[None], frozen=True):
    """The statement of an operator that a dead broker will not come back under its id. The cluster then no longer waits
    for it. KafkaError BROKER_ID_NOT_REGISTERED: the id is unknown; INVALID_REQUEST: the broker runs, or has replicas.
    """

    broker_id: int


class ElectionOutcome(msgspec.Struct, frozen=True):
    """The result of one partition's election: error code 0, or the reason for no election."""

    topic: str
    partition: int
    error_code: int = 0
    error_message: str | None = None


class ElectedPartition(msgspec.Struct, frozen=True):
    """A partition that needs a leader election."""

    topic: str
    partition: int
    topic_id: Uuid | None = None
    """Set if the client named the topic by id. The controller then refuses another incarnation of the name."""


class ElectLeaders(Event[list[ElectionOutcome]], frozen=True):
    """Election of preferred leaders; with `unclean`, of any replica for partitions without a leader (KIP-460). Reply:
    one result for each partition, in order. If the event names no partitions, one result for each partition that needed
    an election."""

    unclean: bool
    partitions: tuple[ElectedPartition, ...] | None
    """None means all partitions."""


class NewReplicas(msgspec.Struct, frozen=True):
    """The new replicas of a partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    """The preferred leader comes first. None cancels the running reassignment."""
    topic_id: Uuid | None = None
    """Set if the submitter has read the topic. The controller then refuses another incarnation of the name."""


class ReassignPartitions(Event[list[KafkaError | None]], frozen=True):
    """Begin, change or cancellation of reassignments (KIP-455). Reply: None or the error for each partition, in order.
    """

    partitions: tuple[NewReplicas, ...]
    factor_may_change: bool = True
    """False refuses a change of the number of replicas (KIP-860)."""


# --- staged ingests ---------------------------------------------------------------------------------------------------


class BeginIngest(Event[IngestRecord], frozen=True):
    """Begin of a staged ingest. Reply: the open record, or the committed record if the ingest is already committed."""

    key: IngestKey
    ttl_ms: int
    join: bool
    config: Mapping[str, str]
    now_ms: int
    open_max: int
    committed_max: int
    """Limit of open and remembered ingests, counted together."""
    first_epoch: int
    """The epoch of the ingest if this event opens it."""


class CommitIngest(Event[IngestRecord], frozen=True):
    """Commit of an ingest whose listed records are all staged on disk. Reply: the committed record."""

    key: IngestKey
    epoch: int
    partitions: Mapping[int, tuple[int, int]]
    """Rows and bytes by partition."""
    now_ms: int
    plan: int = 0
    """In a cluster: the number of the prepared plan."""
    reopened: int = 0
    """The value in the ingest's record at the time of the prepare."""
    versions: Mapping[int, int] | None = None
    """In a cluster: the state versions of the partitions when all their in-sync replicas had everything on disk. If a
    version has changed since, the controller decides nothing and answers INVALID_UPDATE_VERSION.
    """


class ReopenIngest(Event[None], frozen=True):
    """End of a failed prepare: the ingest accepts appends again."""

    key: IngestKey
    epoch: int


class TouchIngests(Event[None], frozen=True):
    """Times of the last appends to open ingests, with their epochs."""

    touched: tuple[tuple[IngestKey, int, int], ...]


class FinishIngest(Event[IngestRecord], frozen=True):
    """Report of partitions that have linked the committed records. Reply: the record with the known offsets. It is
    COMMITTED when the offsets of all partitions are known.
    """

    key: IngestKey
    offsets: Mapping[int, tuple[int, int]]
    """Base and end offset by partition."""


class LoseIngest(Event[IngestRecord], frozen=True):
    """Report that a leader has lost its staged data of a decided commit. Another in-sync replica becomes leader. If
    there is no such replica, these records are lost. Reply: the record; it is COMMITTED when no partition is pending.
    """

    key: IngestKey
    broker_id: int
    partitions: Mapping[int, int]
    """The leader epoch of each partition."""


class DropIngests(Event[list[IngestRecord]], frozen=True):
    """End of open ingests (each with its epoch), and removal of committed ingests (each with its batch). Reply: the
    records of the ingests that this event ended.
    """

    open: tuple[tuple[IngestKey, int], ...] = ()
    committed: tuple[tuple[SeriesKey, int], ...] = ()
    topics: tuple[Uuid, ...] = ()
    """Topics that cannot be undeleted any more. If the parent nodes of their ingests are empty, they are removed too.
    """
