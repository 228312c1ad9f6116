"""Events that the controller submits to itself: responses of brokers, and events that follow from earlier decisions."""

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
    """Whether the restart certainly lost no record that was visible before."""


class BrokersChanged(Event[None], frozen=True):
    """A change of the registrations: brokers with a new registration, and brokers that have lost theirs."""

    arrived: tuple[Arrival, ...] = ()
    gone: tuple[int, ...] = ()


class FinalizeFeatures(Event[None], frozen=True):
    """The first event of a term in a metadata log without a level of metadata.version."""

    users: Mapping[str, Mapping[str, str]] = {}
    """Users that were added before the first start: SCRAM credentials by user name and mechanism."""


class FenceBroker(Event[None], frozen=True):
    """Fence a broker before its ZooKeeper session ends, because other brokers have seen that its process is dead.
    KafkaError STALE_BROKER_EPOCH: another broker epoch is registered."""

    broker_id: int
    broker_epoch: int


class BrokerSessionEnded(Event[None], frozen=True):
    """Fence a broker of a metadata quorum: it has sent no heartbeat for too long, or other brokers have seen that its
    process is dead. KafkaError STALE_BROKER_EPOCH: another broker epoch is registered."""

    broker_id: int
    broker_epoch: int


class BrokerForgotten(Event[None], frozen=True):
    """The znodes that an unregistered broker wrote have been removed."""

    broker_id: int


class FinishUndelete(Event[UndeletedTopic | KafkaError], frozen=True):
    """End an undelete: enough replicas have their data back, or the topic cannot be restored (`problem`)."""

    topic_id: Uuid
    problem: str | None = None
    holders: Mapping[int, tuple[int, ...]] | None = None
    """By partition, the brokers that have the data; None: all brokers."""


class AdvanceDeletions(Event[None], frozen=True):
    """Advance deletions. `staged`: all replicas have confirmed. `removed`: every broker has removed the data."""

    confirmed: tuple[tuple[Uuid, tuple[int, ...]], ...] = ()
    """(topic id, brokers that have confirmed), while confirmations of other brokers are missing."""
    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()
    tombstones_max: int = 10_000
    """Value of `topic.history.max.incarnations`."""


class RemoveLeftovers(Event[None], frozen=True):
    """Remove the next part of a deleted topic's znodes. The multi that freed the topic's name could not contain all of
    them."""

    name: str


class FinishMigrations(Event[None], frozen=True):
    """All replicas of these migrated topics have written their topic id to `partition.metadata`."""

    topics: tuple[str, ...]


class BalanceLeaders(Event[int], frozen=True):
    """Elect the preferred leaders for each broker that lacks more than `percentage` of the leaderships it should have.
    Reply: the number of elections."""

    percentage: int


class ElectAnyLeaders(Event[None], frozen=True):
    """Elect leaders in topics that have just begun to allow unclean elections: any live replica may lead a partition
    without a leader."""


class AdvanceReassignments(Event[None], frozen=True):
    """Finish the reassignments of these topics if their new replicas are in sync."""

    topics: tuple[Uuid, ...]


class ReplicasGone(Event[None], frozen=True):
    """Confirmed replica removals: topic id, partition, broker, leader epoch of the removal."""

    confirmed: tuple[tuple[Uuid, int, int, int], ...]
