"""The closed set of things that can happen to the cluster's metadata. Each has one decision function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

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


class DeleteTopics(msgspec.Struct, frozen=True):
    """Deletes incarnations, by name or by id. Reply: one DeletedTopic or KafkaError for each, in order."""

    topics: tuple[str | Uuid, ...]
    deleted_by: str
    now_ms: int
    delay_ms: int
    offsets: Mapping[Uuid, tuple[Mapping[str, Any], ...]] = {}
    """Committed offsets of each topic, to be kept with its deletion (R22)."""


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


class AdvanceDeletions(msgspec.Struct, frozen=True):
    """Deletions whose replicas have confirmed (`staged`), or whose data is gone everywhere (`removed`). Reply: None."""

    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()


Event = (
    CreateTopics | DeleteTopics | CreatePartitions | AlterConfigs | RegisterBroker | ReplicasOffline | AdvanceDeletions
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
