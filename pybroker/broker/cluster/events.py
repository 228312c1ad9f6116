"""What can be asked of the controller, and what it answers: plain values, so that they can go to another broker.

Each event has one decision function, which is registered in `controller`. Names were resolved to ids before
wherever an id is asked for here: an event that comes late never means a later topic of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Generic, TypeVar

import msgspec

from pybroker.broker.metadata.acls import AclBinding, AclFilter
from pybroker.broker.metadata.delegation_tokens import DelegationToken
from pybroker.broker.metadata.ingest_records import IngestKey, IngestRecord, SeriesKey
from pybroker.errors import KafkaError
from pybroker.native import Uuid

R_co = TypeVar("R_co", covariant=True)

BY_BROKER = "pybroker"
"""Who made or deleted a topic in its history, when no client asked for it by CreateTopics or DeleteTopics."""


class Event(msgspec.Struct, Generic[R_co], frozen=True):
    """Something to be decided about the cluster's metadata; the parameter is the type of the reply."""


class CatchUp(Event[None], frozen=True):
    """Changes nothing: when it is answered, who asked has heard of everything that was decided before."""


# --- topics -----------------------------------------------------------------------------------------------------------


class NewTopic(msgspec.Struct, frozen=True):
    """One topic to create. Name and configs were checked before; what depends on the cluster is checked in the
    decision."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: Mapping[int, tuple[int, ...]] | None
    """Replicas by partition, when the caller chose them; the two numbers do not count then."""
    config: Mapping[str, str]


class CreatedTopic(msgspec.Struct, frozen=True):
    """What CreateTopics answers for one topic; the id is ZERO with validate_only."""

    name: str
    topic_id: Uuid
    num_partitions: int
    replication_factor: int
    config: Mapping[str, str]


class CreateTopics(Event[list[CreatedTopic | KafkaError]], frozen=True):
    """Reply: one for each topic, in order."""

    topics: tuple[NewTopic, ...]
    validate_only: bool
    seed: int
    """Where placement starts; any number."""
    now_ms: int
    created_by: str = ""
    """Who asked for it, for the topic's history."""
    automatic: bool = False
    """A client asked for the names, and `auto.create.topics.enable` makes them."""


class DeletedTopic(msgspec.Struct, frozen=True):
    """What DeleteTopics answers for one topic."""

    name: str
    topic_id: Uuid


class DeleteTopics(Event[list[DeletedTopic | KafkaError]], frozen=True):
    """Deletes incarnations. Reply: one for each, in order."""

    topics: tuple[Uuid, ...]
    deleted_by: str
    now_ms: int
    delay_ms: int


class Truncation(msgspec.Struct, frozen=True):
    """One topic to truncate."""

    topic_id: Uuid
    keep_offsets: bool
    """The new logs begin where the old ones end, and groups keep their offsets."""


class TruncatedTopic(msgspec.Struct, frozen=True):
    """What TruncateTopics answers for one topic."""

    name: str
    old_id: Uuid
    topic_id: Uuid


class TruncateTopics(Event[list[TruncatedTopic | KafkaError]], frozen=True):
    """Puts an empty incarnation in the place of each topic; the old one is deleted. Reply: one for each, in order."""

    topics: tuple[Truncation, ...]
    truncated_by: str
    now_ms: int
    delay_ms: int


class UndeletedTopic(msgspec.Struct, frozen=True):
    """A topic that is back, or comes back, and its name."""

    name: str
    topic_id: Uuid


class UndeleteTopic(Event[UndeletedTopic | KafkaError], frozen=True):
    """Brings a deleted topic back."""

    topic_id: Uuid
    new_name: str | None
    undeleted_by: str
    now_ms: int


class FoundTopic(msgspec.Struct, frozen=True):
    """What a broker has put aside of a topic that nobody knows."""

    topic_id: Uuid
    name: str
    """By its directories; "": they are named by id."""
    partitions: tuple[int, ...]
    last_epoch: int
    """The highest leader epoch in it."""


class FoundReplicas(Event[None], frozen=True):
    """A broker has data of ids of which nothing is known: they are listed, and can be brought back or deleted."""

    broker_id: int
    topics: tuple[FoundTopic, ...]
    now_ms: int


class PurgedTopic(msgspec.Struct, frozen=True):
    """A deleted topic whose data goes earlier than it would have. `remove_after_ms`: when its delay ends."""

    name: str
    topic_id: Uuid
    remove_after_ms: int


class PurgeTopics(Event[list[PurgedTopic | KafkaError]], frozen=True):
    """Shortens the delay of deleted topics, on every broker. Reply: one for each, in order."""

    topics: tuple[Uuid, ...]
    purged_by: str
    now_ms: int
    delay_ms: int = 0
    """The new delay, counted from the deletion; 0: the data goes at once, and no undelete is possible any more."""


class CloseDeletions(Event[None], frozen=True):
    """The delay is over on a broker: what is deleted cannot be undeleted any more, and its data may go."""

    topics: tuple[Uuid, ...]


class OffsetsRestored(Event[None], frozen=True):
    """The offsets that the deletion record of `topic_id` kept for these groups are with them again, as those of
    `target`: itself after an undelete, its successor after a truncation."""

    topic_id: Uuid
    target: Uuid
    groups: tuple[str, ...]


class KeepOutcome(Event[tuple[Uuid, ...]], frozen=True):
    """A transaction has ended that had written to topics which are deleted: their deletion records keep how, for the
    case that they come back. Reply: those that live (again), and get the marker from the coordinator."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    version: int
    """Of the transaction."""
    partitions: tuple[tuple[Uuid, int], ...]


class OutcomesWritten(Event[None], frozen=True):
    """The markers that the record of a topic kept for these partitions are written."""

    topic_id: Uuid
    partitions: tuple[int, ...]


class NewPartitions(msgspec.Struct, frozen=True):
    """Grow a topic to `total` partitions."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None
    topic_id: Uuid | None = None
    """Set when the caller read the topic before: another incarnation of the name is then refused."""


class CreatePartitions(Event[list[KafkaError | None]], frozen=True):
    """Reply: None or the error for each, in order."""

    topics: tuple[NewPartitions, ...]
    validate_only: bool
    seed: int


class DropDeleteOrders(Event[None], frozen=True):
    """Deletions ordered in the format from before topic ids that will not be carried out."""

    topics: tuple[str, ...]


# --- settings and security --------------------------------------------------------------------------------------------


class ConfigChange(msgspec.Struct, frozen=True):
    """New values of one topic, broker, group or subscription to metrics; None removes a setting."""

    resource: str
    """"topic", "broker", "group" or "client-metrics"."""
    name: str
    """"<default>": all brokers."""
    changes: Mapping[str, str | None]
    replace: bool = False
    """True: everything that is not in `changes` is removed (AlterConfigs)."""
    topic_id: Uuid | None = None
    """The incarnation that the caller saw: settings meant for it never reach a later one of the same name."""
    topic_ids: bool = False
    """The protocol version that it sets gives topics ids, if they have none."""
    version: int | None = None
    """Of the settings that the caller saw (-1: none were stored); others by now: INVALID_UPDATE_VERSION."""


class AlterConfigs(Event[list[KafkaError | None]], frozen=True):
    """Reply: None or the error for each, in order. Values were validated before."""

    changes: tuple[ConfigChange, ...]


class CreateAcls(Event[None], frozen=True):
    """Adds entries, which were validated before; those that exist already stay."""

    bindings: tuple[AclBinding, ...]


class DeleteAcls(Event[list[tuple[AclBinding, ...]]], frozen=True):
    """Removes the entries that each filter means. Reply: for each filter what it meant."""

    filters: tuple[AclFilter, ...]


class UserChange(msgspec.Struct, frozen=True):
    """New credentials of a user by mechanism (as stored); None removes one, which must exist."""

    name: str
    credentials: Mapping[str, str | None]


class AlterUsers(Event[list[KafkaError | None]], frozen=True):
    """Reply: None or the error for each, in order. A user must not be named twice."""

    changes: tuple[UserChange, ...]


class CreateToken(Event[None], frozen=True):
    """A delegation token, which was validated before."""

    token: DelegationToken


class ChangeToken(Event[int], frozen=True):
    """Reply: when the token expires, milliseconds since 1970. None of `expires_ms` removes it. `by`: the principal that
    asks; None: a broker, because its time is over."""

    token_id: str
    expires_ms: int | None
    now_ms: int
    by: str | None


class QuotaChange(msgspec.Struct, frozen=True):
    """New quotas of an entity (`metadata.client_quotas`), as stored; None removes one, if it is there."""

    entity: tuple[tuple[str, str | None], ...]
    values: Mapping[str, str | None]


class AlterClientQuotas(Event[list[KafkaError | None]], frozen=True):
    """Reply: None or the error for each, in order. Values were validated before."""

    changes: tuple[QuotaChange, ...]


class UpgradeType(IntEnum):
    """In which direction the level of a feature is to go, numbered as on the wire (KIP-584, KIP-778)."""

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
    """All of them or none; no feature is named twice."""

    changes: tuple[FeatureChange, ...]
    validate_only: bool = False


# --- replication ------------------------------------------------------------------------------------------------------


class IsrChange(msgspec.Struct, frozen=True):
    """The set of replicas in sync as the leader of a partition proposes it (KIP-497), for the state that it knows."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Broker ids, and the life of each that the leader has heard (KIP-903); -1: not known."""
    version: int


class IsrOutcome(msgspec.Struct, frozen=True):
    """What became of one proposal: `error_code` 0 and what is written, or why it never will be, and what is known."""

    error_code: int
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    version: int = -1


class AlterIsr(Event[list[IsrOutcome]], frozen=True):
    """Reply: one for each, in order. KafkaError STALE_BROKER_EPOCH: another life of that broker asks."""

    broker_id: int
    broker_epoch: int
    changes: tuple[IsrChange, ...]


class ReplicasOffline(Event[None], frozen=True):
    """A broker cannot serve some of its replicas (failed directory, quarantined metadata)."""

    broker_id: int
    partitions: tuple[tuple[Uuid, int], ...]
    broker_epoch: int = -1
    """Of the life that says so; -1: the controller has heard it in an answer of that life."""


class LogEndsTold(Event[None], frozen=True):
    """How far the logs of a broker go that may have lost something, where nobody leads; or that nothing of a log is
    there although it is taken for in sync."""

    broker_id: int
    broker_epoch: int
    """Of the life that says so."""
    ends: tuple[tuple[Uuid, int, int, int], ...]
    """Topic id, partition, and its last leader epoch and end, as in `LogEnd`."""


class ShutDownOutcome(msgspec.Struct, frozen=True):
    """How far a controlled shutdown has come."""

    remaining: tuple[tuple[str, int], ...] = ()
    """Names and numbers of the partitions that the broker still leads, because nobody else can. Known at the end."""
    more: bool = False
    """Whether there are others to be taken over: it is to be asked again at once."""


class ShutDownBroker(Event[ShutDownOutcome], frozen=True):
    """A broker is about to stop: others lead and are in sync without it as far as they can (KIP-49's controlled
    shutdown). Many partitions are taken over in several turns, so that whoever else asks the controller does not wait
    for all of them. KafkaError STALE_BROKER_EPOCH: another life of that broker is registered."""

    broker_id: int
    broker_epoch: int


class UnregisterBroker(Event[None], frozen=True):
    """A broker that is dead will not come back under its id: nobody waits for it any more. KafkaError
    BROKER_ID_NOT_REGISTERED: nothing is known of it; INVALID_REQUEST: it runs, or has replicas."""

    broker_id: int


class ElectionOutcome(msgspec.Struct, frozen=True):
    """What became of one partition's election: 0, or why there was none."""

    topic: str
    partition: int
    error_code: int = 0
    error_message: str | None = None


class ElectedPartition(msgspec.Struct, frozen=True):
    """A partition whose leader shall be elected."""

    topic: str
    partition: int
    topic_id: Uuid | None = None
    """Set where the client gave it: another incarnation of the name is then refused."""


class ElectLeaders(Event[list[ElectionOutcome]], frozen=True):
    """Elects the preferred leaders, or with `unclean` any replica where nobody leads (KIP-460). Reply: one for each, in
    order; where none are named, one for each partition that needed an election."""

    unclean: bool
    partitions: tuple[ElectedPartition, ...] | None
    """None: all there are."""


class NewReplicas(msgspec.Struct, frozen=True):
    """Which brokers shall have the replicas of a partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    """The preferred leader first; None: the reassignment that is under way is taken back."""
    topic_id: Uuid | None = None
    """Set when the caller read the topic before: another incarnation of the name is then refused."""


class ReassignPartitions(Event[list[KafkaError | None]], frozen=True):
    """Begins reassignments, changes or ends those under way (KIP-455). Reply: None or the error for each, in order."""

    partitions: tuple[NewReplicas, ...]
    factor_may_change: bool = True
    """False: a number of replicas that differs from the one before is refused (KIP-860)."""


# --- staged ingests ---------------------------------------------------------------------------------------------------


class BeginIngest(Event[IngestRecord], frozen=True):
    """Reply: the record that is open, or that was committed."""

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


class CommitIngest(Event[IngestRecord], frozen=True):
    """Everything listed is staged on disk. Reply: the committed record."""

    key: IngestKey
    epoch: int
    partitions: Mapping[int, tuple[int, int]]
    """Rows and bytes."""
    now_ms: int
    plan: int = 0
    """In a cluster: the number of what is prepared."""
    reopened: int = 0
    """As the record said when it was prepared."""
    versions: Mapping[int, int] | None = None
    """In a cluster: the state of each partition whose replicas in sync have everything on disk. INVALID_UPDATE_VERSION:
    one is another by now, and nothing is decided."""


class ReopenIngest(Event[None], frozen=True):
    """A commit was prepared and comes to nothing: appends go on."""

    key: IngestKey
    epoch: int


class TouchIngests(Event[None], frozen=True):
    """Open ingests, with their epoch, have taken records at that time."""

    touched: tuple[tuple[IngestKey, int, int], ...]


class FinishIngest(Event[IngestRecord], frozen=True):
    """Partitions have the records, committed. Reply: the record with its offsets, COMMITTED once all have."""

    key: IngestKey
    offsets: Mapping[int, tuple[int, int]]
    """Base and end offset."""


class LoseIngest(Event[IngestRecord], frozen=True):
    """A leader has nothing of what a decided commit brings to partitions: another replica in sync leads, or, if there
    is none, those records are lost. Reply: the record, COMMITTED once no partition waits."""

    key: IngestKey
    broker_id: int
    partitions: Mapping[int, int]
    """Its leader epoch of each."""


class DropIngests(Event[list[IngestRecord]], frozen=True):
    """Ends open ingests, with their epoch, and forgets committed ones, with their batch. Reply: the records of the open
    ones."""

    open: tuple[tuple[IngestKey, int], ...] = ()
    committed: tuple[tuple[SeriesKey, int], ...] = ()
    topics: tuple[Uuid, ...] = ()
    """Topics that cannot come back: the nodes above their ingests go as well, as far as they are empty."""
