"""The state of a partition in the cluster's metadata, independent of the store."""

from __future__ import annotations

from typing import NamedTuple


class PartitionState(NamedTuple):
    """A partition as the controller last wrote it."""

    replicas: frozenset[int]
    leader: int
    leader_epoch: int
    isr: frozenset[int]
    changes: int
    """Number of writes since the partition was created."""
    topic_id: str
    """32 hexadecimal digits."""
    moves: bool
    """Whether replicas are being added or removed, or a broker has not yet staged a replica that was moved away from
    it."""


class StateUnknownError(Exception):
    """The metadata store does not answer, or changed while it was read."""
