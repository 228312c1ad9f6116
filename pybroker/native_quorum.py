"""Types of the native metadata quorum. They have their own module because only a broker with a quorum needs them."""

from __future__ import annotations

from pybroker._native import (
    CommittedRecords,
    MetadataQuorum,
    MetadataSnapshot,
    ProposalOutcome,
    QuorumEndpoint,
    QuorumFailure,
    QuorumLeader,
    QuorumLogSummary,
    QuorumReplica,
    QuorumReplicaStatus,
    QuorumRequest,
    QuorumResponse,
    QuorumRoom,
    QuorumStatus,
    QuorumVoters,
    QuorumWarning,
    SnapshotEnd,
    SnapshotRecords,
    SnapshotStart,
)

__all__ = [
    "CommittedRecords",
    "MetadataQuorum",
    "MetadataSnapshot",
    "ProposalOutcome",
    "QuorumEndpoint",
    "QuorumFailure",
    "QuorumLeader",
    "QuorumLogSummary",
    "QuorumReplica",
    "QuorumReplicaStatus",
    "QuorumRequest",
    "QuorumResponse",
    "QuorumRoom",
    "QuorumStatus",
    "QuorumVoters",
    "QuorumWarning",
    "SnapshotEnd",
    "SnapshotRecords",
    "SnapshotStart",
]
