"""The closed set of things that can happen to the cluster's metadata. Each has one decision function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pybroker.metadata.acls import AclBinding, AclFilter
from pybroker.metadata.ingest_records import IngestKey, SeriesKey
from pybroker.metadata.znodes import Endpoint
from pybroker.native import Uuid


class NewTopic(msgspec.Struct, frozen=True):
    """One topic to create. Name and configs were checked before; what depends on the cluster is checked in the
    decision."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: Mapping[int, tuple[int, ...]] | None
    """Replicas by partition, when the caller chose them; the two numbers do not count then."""
    config: Mapping[str, str]


class CreateTopics(msgspec.Struct, frozen=True):
    """Reply: one CreatedTopic or KafkaError for each topic, in order."""

    topics: tuple[NewTopic, ...]
    validate_only: bool
    seed: int
    """Where placement starts; any number."""
    created_by: str = ""
    """Who asked for it, for the topic's history."""


class DeleteTopics(msgspec.Struct, frozen=True):
    """Deletes incarnations, by name or by id. Reply: one DeletedTopic or KafkaError for each, in order."""

    topics: tuple[str | Uuid, ...]
    deleted_by: str
    now_ms: int
    delay_ms: int
    offsets: Mapping[Uuid, tuple[Mapping[str, Any], ...]] = {}
    """Committed offsets of each topic, to be kept with its deletion (R22)."""
    ends: Mapping[Uuid, tuple[tuple[int, int], ...]] = {}
    """Log start and log end of each topic's partitions, for its history."""


class Truncation(msgspec.Struct, frozen=True):
    """One topic to truncate."""

    topic_id: Uuid
    keep_offsets: bool
    """The new logs begin where the old ones end, and groups keep their offsets."""


class TruncateTopics(msgspec.Struct, frozen=True):
    """Puts an empty incarnation in the place of each topic; the old one is deleted. Reply: one TruncatedTopic or
    KafkaError for each, in order."""

    topics: tuple[Truncation, ...]
    truncated_by: str
    now_ms: int
    delay_ms: int
    offsets: Mapping[Uuid, tuple[Mapping[str, Any], ...]] = {}
    ends: Mapping[Uuid, tuple[tuple[int, int], ...]] = {}
    """As in DeleteTopics. Without the ends of a topic its offsets cannot be kept."""


class UndeleteTopic(msgspec.Struct, frozen=True):
    """Begins to bring a deleted topic back. Reply: its name to be, or KafkaError."""

    topic_id: Uuid
    new_name: str | None
    undeleted_by: str
    now_ms: int


class FinishUndelete(msgspec.Struct, frozen=True):
    """Every replica has its data back, or one of them cannot have it (`problem`). Reply: UndeletedTopic or
    KafkaError."""

    topic_id: Uuid
    problem: str | None = None


class OffsetsRestored(msgspec.Struct, frozen=True):
    """The offsets that the deletion record of `topic_id` kept are with their groups again. Reply: None."""

    topic_id: Uuid


class NewPartitions(msgspec.Struct, frozen=True):
    """Grow a topic to `total` partitions."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None
    topic_id: Uuid | None = None
    """Set when the caller read the topic before: another incarnation of the name is then refused (A33)."""


class CreatePartitions(msgspec.Struct, frozen=True):
    """Reply: None or KafkaError for each, in order."""

    topics: tuple[NewPartitions, ...]
    validate_only: bool
    seed: int


class ConfigChange(msgspec.Struct, frozen=True):
    """New values of one topic or broker ("" or None as key of the default is "<default>"); None removes a setting."""

    resource: str
    """"topic" or "broker"."""
    name: str
    changes: Mapping[str, str | None]
    replace: bool = False
    """True: everything that is not in `changes` is removed (AlterConfigs)."""
    topic_id: Uuid | None = None
    """The incarnation that the caller saw: settings meant for it never reach a later one of the same name."""
    topic_ids: bool = False
    """The protocol version that it sets gives topics ids, if they have none."""


class AlterConfigs(msgspec.Struct, frozen=True):
    """Reply: None or KafkaError for each, in order. Values were validated before."""

    changes: tuple[ConfigChange, ...]


class RegisterBroker(msgspec.Struct, frozen=True):
    """A broker came up. Reply: None."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    intact: bool
    """Nothing that was visible in its life before can be lost: what it led needs no new leader epoch."""


class ReplicasOffline(msgspec.Struct, frozen=True):
    """A broker cannot serve some of its replicas (failed directory, quarantined metadata). Reply: None."""

    broker_id: int
    partitions: tuple[tuple[Uuid, int], ...]


class CreateAcls(msgspec.Struct, frozen=True):
    """Adds entries, which were validated before; those that exist already stay. Reply: None."""

    bindings: tuple[AclBinding, ...]


class DeleteAcls(msgspec.Struct, frozen=True):
    """Removes the entries that each filter means. Reply: for each filter a tuple of what it meant."""

    filters: tuple[AclFilter, ...]


class UserChange(msgspec.Struct, frozen=True):
    """New credentials of a user by mechanism (as stored); None removes one, which must exist."""

    name: str
    credentials: Mapping[str, str | None]


class AlterUsers(msgspec.Struct, frozen=True):
    """Reply: None or KafkaError for each, in order. A user must not be named twice."""

    changes: tuple[UserChange, ...]


class AdvanceDeletions(msgspec.Struct, frozen=True):
    """Deletions whose replicas have confirmed (`staged`), or whose data is gone everywhere (`removed`). Reply: None."""

    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()
    tombstones_max: int = 10_000
    """`topic.history.max.incarnations`."""


class FinishMigrations(msgspec.Struct, frozen=True):
    """Old topics whose replicas have all written their new id to `partition.metadata`. Reply: None."""

    topics: tuple[str, ...]


class DropDeleteOrders(msgspec.Struct, frozen=True):
    """Deletions ordered in the old format that will not be carried out. Reply: None."""

    topics: tuple[str, ...]


class BeginIngest(msgspec.Struct, frozen=True):
    """Reply: the IngestRecord that is open, or that was committed."""

    key: IngestKey
    ttl_ms: int
    join: bool
    config: Mapping[str, str]
    now_ms: int
    open_max: int
    committed_max: int
    """Of the open and the remembered ones together."""
    first_epoch: int
    """Of an ingest that is not open yet."""


class CommitIngest(msgspec.Struct, frozen=True):
    """Everything listed is staged on disk. Reply: the IngestRecord."""

    key: IngestKey
    epoch: int
    partitions: Mapping[int, tuple[int, int]]
    """Rows and bytes."""
    now_ms: int


class FinishIngest(msgspec.Struct, frozen=True):
    """Every partition has the records. Reply: the IngestRecord."""

    key: IngestKey
    offsets: Mapping[int, tuple[int, int]]
    """Base and end offset."""


class DropIngests(msgspec.Struct, frozen=True):
    """Ends open ingests, with their epoch, and forgets committed ones, with their batch. Reply: the records of the open
    ones."""

    open: tuple[tuple[IngestKey, int], ...] = ()
    committed: tuple[tuple[SeriesKey, int], ...] = ()
    topics: tuple[Uuid, ...] = ()
    """Topics that cannot come back: the nodes above their ingests go as well, as far as they are empty."""


Event = (
    CreateAcls
    | DeleteAcls
    | AlterUsers
    | FinishMigrations
    | DropDeleteOrders
    | CreateTopics
    | DeleteTopics
    | TruncateTopics
    | UndeleteTopic
    | FinishUndelete
    | OffsetsRestored
    | CreatePartitions
    | AlterConfigs
    | RegisterBroker
    | ReplicasOffline
    | AdvanceDeletions
    | BeginIngest
    | CommitIngest
    | FinishIngest
    | DropIngests
)


class CreatedTopic(msgspec.Struct, frozen=True):
    """What CreateTopics answers for one topic; the id is ZERO with validate_only."""

    name: str
    topic_id: Uuid
    num_partitions: int
    replication_factor: int
    config: Mapping[str, str]


class DeletedTopic(msgspec.Struct, frozen=True):
    """What DeleteTopics answers for one topic."""

    name: str
    topic_id: Uuid


class TruncatedTopic(msgspec.Struct, frozen=True):
    """What TruncateTopics answers for one topic."""

    name: str
    old_id: Uuid
    topic_id: Uuid


class UndeletedTopic(msgspec.Struct, frozen=True):
    """What FinishUndelete answers."""

    name: str
    topic_id: Uuid
