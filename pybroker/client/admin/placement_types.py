"""What AdminClient's calls about leaders and replicas take and give."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ElectionType(IntEnum):
    """Who may be elected (KIP-460)."""

    PREFERRED = 0
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any replica, where nobody leads: what only others had is lost."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment under way (KIP-455). replicas: all that there are now."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
