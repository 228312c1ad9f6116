"""Types of AdminClient's calls about leaders and replicas."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ElectionType(IntEnum):
    """Which replicas may become leader (KIP-460)."""

    PREFERRED = 0
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, if the partition has no leader: records that only other replicas have are lost."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment in progress (KIP-455). replicas: all current replicas."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
