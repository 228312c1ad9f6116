"""Events about the brokers and voters of a metadata quorum. In a cluster with a metadata store, brokers write the same
facts to the store instead.

Any broker may submit these events, as it may submit those in `cluster.events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pybroker.broker.cluster.events import Event
from pybroker.broker.metadata.control_messages import (
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from pybroker.broker.metadata.feature_levels import FeatureRange
from pybroker.broker.metadata.znodes import Endpoint, RunningNode, StagedNode
from pybroker.native import Uuid


class RegisteredBroker(msgspec.Struct, frozen=True):
    """The result of a registration."""

    epoch: int
    """The broker epoch."""
    lost_directories: tuple[str, ...] = ()
    """Ids of log directories that are gone since the broker's previous run."""


class RegisterBroker(Event[RegisteredBroker], frozen=True):
    """Registration of a broker that starts, or whose registration has ended although it runs. A registration of its
    previous run, recognized by the id of the first log directory, is replaced. KafkaError
    DUPLICATE_BROKER_REGISTRATION: another live broker has the id. UNSUPPORTED_VERSION: the broker does not support the
    level of metadata.version."""

    broker_id: int
    incarnation: Uuid
    """Chosen by the process: a repeated registration gets the same epoch."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    run: RunningNode
    """The conditions of its run."""
    log_dirs: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    """The features of the metadata log that it supports."""


class StopBroker(Event[None], frozen=True):
    """The end of a broker's run after everything is on disk. KafkaError STALE_BROKER_EPOCH: another broker epoch is
    registered."""

    broker_id: int
    broker_epoch: int
    complete: bool
    """No replica waits for the data of a lost log directory."""


class BrokerHeartbeat(Event[None], frozen=True):
    """A sign of life, with the end of the metadata log that the broker has applied. KafkaError STALE_BROKER_EPOCH:
    another broker epoch is registered, or none."""

    broker_id: int
    broker_epoch: int
    applied: int


class MarkStaged(Event[None], frozen=True):
    """Marks of a broker's staged data: new or changed ones, and those of topics whose data it has removed."""

    broker_id: int
    staged: Mapping[Uuid, StagedNode] = {}
    removed: tuple[Uuid, ...] = ()


class ReplicasStopped(Event[None], frozen=True):
    """A broker's answer to an order that it has derived from the metadata log."""

    broker_id: int
    request: StopReplicaRequest
    response: StopReplicaResponse


class ReplicasRestored(Event[None], frozen=True):
    """See `ReplicasStopped`."""

    broker_id: int
    request: RestoreReplicasRequest
    response: RestoreReplicasResponse


class ProducerIdRange(msgspec.Struct, frozen=True):
    """A block of producer ids."""

    first: int
    last: int


class AllocateProducerIds(Event[ProducerIdRange], frozen=True):
    """A block of producer ids for one broker."""

    broker_id: int


class AskClusterId(Event[str], frozen=True):
    """The question of a node that starts for the first time. Reply: the cluster's id. Any node answers it."""


class QuorumAddress(msgspec.Struct, frozen=True):
    """An address of a node's listener for brokers."""

    listener: str
    """"" if unknown."""
    host: str
    port: int


class QuorumReplicaState(msgspec.Struct, frozen=True):
    """A replica of the metadata log as the leader knows it. A number of -1 is unknown."""

    node_id: int
    directory_id: Uuid
    end_offset: int
    fetched_ms: int
    """Time of its last fetch."""
    caught_up_ms: int
    """The last time at which it had all records that the leader had at that time."""
    addresses: tuple[QuorumAddress, ...]


class QuorumState(msgspec.Struct, frozen=True):
    """The metadata quorum as its leader knows it."""

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaState, ...]
    observers: tuple[QuorumReplicaState, ...]


class DescribeQuorum(Event[QuorumState], frozen=True):
    """The question for voters and observers of the metadata log."""


class AddVoter(Event[None], frozen=True):
    """Promotion of an observer to a voter (KIP-853). KafkaError DUPLICATE_VOTER: the node is a voter already, perhaps
    with another directory; REQUEST_TIMED_OUT: it has not caught up within the timeout."""

    node_id: int
    directory_id: Uuid
    addresses: tuple[QuorumAddress, ...]
    timeout_ms: int
    when_committed: bool = True
    """Answer when the change is committed; otherwise when the leader has appended it."""


class RemoveVoter(Event[None], frozen=True):
    """Removal of a voter (KIP-853). KafkaError VOTER_NOT_FOUND; INVALID_REQUEST: it is the only voter."""

    node_id: int
    directory_id: Uuid


class TransferQuorumLeader(Event[int], frozen=True):
    """The leader of the metadata log resigns, and prefers a successor. Reply: the leader that was elected, which may be
    another voter. KafkaError VOTER_NOT_FOUND: the successor is no voter; REQUEST_TIMED_OUT: none was elected."""

    successor: int | None
    timeout_ms: int


class OfferVoter(Event[None], frozen=True):
    """A registered broker offers itself as a voter; it repeats this while it is an observer."""

    broker_id: int
    broker_epoch: int
    directory_id: Uuid
    addresses: tuple[QuorumAddress, ...]


QuorumEvent = DescribeQuorum | AddVoter | RemoveVoter | TransferQuorumLeader | OfferVoter
"""Events that concern the metadata log itself, not the image that its records make."""

ANSWERED_WHEN_DURABLE: frozenset[type[Event[Any]]] = frozenset(
    {
        AddVoter,
        AllocateProducerIds,
        AskClusterId,
        BrokerHeartbeat,
        DescribeQuorum,
        MarkStaged,
        OfferVoter,
        RegisterBroker,
        RemoveVoter,
        ReplicasRestored,
        ReplicasStopped,
        StopBroker,
        TransferQuorumLeader,
    }
)
"""A broker submits these while it applies changes, or they change nothing in the image: their answers do not wait until
the broker has applied the image.
"""
