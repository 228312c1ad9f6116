"""The controller's internal events: responses of brokers, and follow-up events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.cluster.events import Event, UndeletedTopic
from pybroker.broker.metadata.image import BrokerImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid


class Arrival(msgspec.Struct, frozen=True):
    """A broker that has started."""

    broker: BrokerImage
    intact: bool
    """Whether the restart cannot have lost a record that was visible before it."""


class BrokersChanged(Event[None], frozen=True):
    """A change of the registrations: brokers with a new registration, and brokers that have lost theirs."""

    arrived: tuple[Arrival, ...] = ()
    gone: tuple[int, ...] = ()


class FinalizeFeatures(Event[None], frozen=True):
    """The first event of a term in a metadata log without a level of metadata.version."""

    users: Mapping[str, Mapping[str, str]] = {}
    """The users that were added before the first start: SCRAM credentials by name and mechanism."""


class FenceBroker(Event[None], frozen=True):
    """Fence a broker before its ZooKeeper session ends, because other brokers have seen that its process is dead.
    KafkaError STALE_BROKER_EPOCH: another broker epoch is registered."""

    broker_id: int
    broker_epoch: int


class BrokerSessionEnded(Event[None], frozen=True):
    """Fence a broker of a metadata quorum that has sent no heartbeat for too long, or whose process was seen dead by
    other brokers. KafkaError STALE_BROKER_EPOCH: another broker epoch is registered."""

    broker_id: int
    broker_epoch: int


class BrokerForgotten(Event[None], frozen=True):
    """The znodes that an unregistered broker wrote have been removed."""

    broker_id: int


class FinishUndelete(Event[UndeletedTopic | KafkaError], frozen=True):
    """End an undelete: enough replicas have their data back, or the topic cannot come back (`problem`)."""

    topic_id: Uuid
    problem: str | None = None
    holders: Mapping[int, tuple[int, ...]] | None = None
    """Brokers that have the data, by partition; None: all brokers."""


class AdvanceDeletions(Event[None], frozen=True):
    """Advance deletions: all replicas have confirmed (`staged`), or the data is removed everywhere (`removed`)."""

    confirmed: tuple[tuple[Uuid, tuple[int, ...]], ...] = ()
    """(topic id, brokers that have confirmed), while other brokers are missing."""
    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()
    tombstones_max: int = 10_000
    """Value of `topic.history.max.incarnations`."""


class RemoveLeftovers(Event[None], frozen=True):
    """Remove the next part of a deleted topic's znodes. The topic had too many znodes for the multi that freed its
    name."""

    name: str


class FinishMigrations(Event[None], frozen=True):
    """All replicas of these migrated topics have written their topic id to `partition.metadata`."""

    topics: tuple[str, ...]


class BalanceLeaders(Event[int], frozen=True):
    """Elect the preferred leaders of each broker that lacks more than `percentage` of the leaderships it should have.
    Reply: the number of elections."""

    percentage: int


class ElectAnyLeaders(Event[None], frozen=True):
    """Elect leaders in topics that allow unclean elections since their last change: any live replica may lead a
    partition without a leader."""


class AdvanceReassignments(Event[None], frozen=True):
    """Finish the reassignments of these topics if their new replicas are in sync."""

    topics: tuple[Uuid, ...]


class ReplicasGone(Event[None], frozen=True):
    """Confirmed replica removals: topic id, partition, broker, leader epoch of the removal."""

    confirmed: tuple[tuple[Uuid, int, int, int], ...]
