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
    """Registration of a broker that starts, or of a running broker whose registration has ended. It replaces the
    registration of the broker's previous run, which the id of the first log directory identifies. KafkaError
    DUPLICATE_BROKER_REGISTRATION: another live broker has the id. UNSUPPORTED_VERSION: the broker does not support the
    level of metadata.version."""

    broker_id: int
    incarnation: Uuid
    """An id that the process has chosen. If the same process registers again, it gets the same epoch."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    run: RunningNode
    """The conditions of the broker's run."""
    log_dirs: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    """The features of the metadata log that the broker supports."""


class StopBroker(Event[None], frozen=True):
    """The end of a broker's run after everything is on disk. KafkaError STALE_BROKER_EPOCH: another broker epoch is
    registered."""

    broker_id: int
    broker_epoch: int
    complete: bool
    """Whether no replica waits for the data of a lost log directory."""


class BrokerHeartbeat(Event[None], frozen=True):
    """A heartbeat with the offset up to which the broker has applied the metadata log. KafkaError STALE_BROKER_EPOCH:
    this broker epoch is not registered."""

    broker_id: int
    broker_epoch: int
    applied: int


class MarkStaged(Event[None], frozen=True):
    """New and changed marks of a broker's staged data, and the topics whose data the broker has removed."""

    broker_id: int
    staged: Mapping[Uuid, StagedNode] = {}
    removed: tuple[Uuid, ...] = ()


class ReplicasStopped(Event[None], frozen=True):
    """A broker's answer to a StopReplica order that it has derived from the metadata log."""

    broker_id: int
    request: StopReplicaRequest
    response: StopReplicaResponse


class ReplicasRestored(Event[None], frozen=True):
    """A broker's answer to a RestoreReplicas order that it has derived from the metadata log."""

    broker_id: int
    request: RestoreReplicasRequest
    response: RestoreReplicasResponse


class ProducerIdRange(msgspec.Struct, frozen=True):
    """A block of producer ids."""

    first: int
    last: int


class AllocateProducerIds(Event[ProducerIdRange], frozen=True):
    """A request for a block of producer ids for one broker."""

    broker_id: int


class AskClusterId(Event[str], frozen=True):
    """The request of a new node for the cluster's id. The reply is the id. Any node answers it."""


class QuorumAddress(msgspec.Struct, frozen=True):
    """An address of a node on the inter-broker listener."""

    listener: str
    """"" if unknown."""
    host: str
    port: int


class QuorumReplicaState(msgspec.Struct, frozen=True):
    """A replica of the metadata log, as the leader sees it. Numbers are -1 if unknown."""

    node_id: int
    directory_id: Uuid
    end_offset: int
    fetched_ms: int
    """Time of the replica's last fetch."""
    caught_up_ms: int
    """The last time at which the replica had every record that the leader had at that time."""
    addresses: tuple[QuorumAddress, ...]


class QuorumState(msgspec.Struct, frozen=True):
    """The metadata quorum, as its leader sees it."""

    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaState, ...]
    observers: tuple[QuorumReplicaState, ...]


class DescribeQuorum(Event[QuorumState], frozen=True):
    """A request for the voters and observers of the metadata log."""


class AddVoter(Event[None], frozen=True):
    """Promotion of an observer to a voter (KIP-853). KafkaError DUPLICATE_VOTER: the node is a voter already, perhaps
    with another directory; REQUEST_TIMED_OUT: it has not caught up within the timeout."""

    node_id: int
    directory_id: Uuid
    addresses: tuple[QuorumAddress, ...]
    timeout_ms: int
    when_committed: bool = True
    """True: answer when the change is committed. False: answer when the leader has appended the change."""


class RemoveVoter(Event[None], frozen=True):
    """Removal of a voter (KIP-853). KafkaError VOTER_NOT_FOUND; INVALID_REQUEST: it is the only voter."""

    node_id: int
    directory_id: Uuid


class UnregisterController(Event[None], frozen=True):
    """The question whether a controller is gone for ever (KIP-1312). KafkaError INVALID_REQUEST: the node leads or is a
    voter; CONTROLLER_ID_NOT_REGISTERED: the cluster does not know the node."""

    controller_id: int


class TransferQuorumLeader(Event[int], frozen=True):
    """Resignation of the metadata log's leader in favour of a successor. Reply: the leader that was elected, which may
    be another voter. KafkaError VOTER_NOT_FOUND: the successor is not a voter; REQUEST_TIMED_OUT: no leader was
    elected."""

    successor: int | None
    timeout_ms: int


class OfferVoter(Event[None], frozen=True):
    """An observer's offer to become a voter. A registered broker repeats it as long as it is an observer."""

    broker_id: int
    broker_epoch: int
    directory_id: Uuid
    addresses: tuple[QuorumAddress, ...]


QuorumEvent = DescribeQuorum | AddVoter | RemoveVoter | UnregisterController | TransferQuorumLeader | OfferVoter
"""Events that concern the metadata log itself, not the image that results from its records."""

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
        UnregisterController,
    }
)
"""Events whose answers do not wait until the broker has applied the image. Either the broker submits them while it
applies changes, or they do not change the image."""
