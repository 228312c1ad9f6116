"""Size in memory of the metadata that members of consumer, share and streams groups send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

ELEMENT_BYTES = 8
"""Overhead of an element of a collection."""
STRUCTURE_BYTES = 40
NUMBER_BYTES = 24


def metadata_size(value: Any) -> int:
    """Return the approximate memory of a value in bytes: its texts and buffers, plus an overhead for each structure and
    each element of collections."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, msgspec.Struct):
        return STRUCTURE_BYTES + sum(metadata_size(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return sum(ELEMENT_BYTES + metadata_size(key) + metadata_size(item) for key, item in value.items())
    if isinstance(value, tuple | list | frozenset | set):
        return sum(ELEMENT_BYTES + (NUMBER_BYTES if type(item) is int else metadata_size(item)) for item in value)
    return 0


MEMBER_BYTES = 500
"""Approximate memory of a member, or of a group, without names and metadata."""

SHARED = ""
"""Used instead of a member id, for metadata that all members of a group have in common; its size counts once."""


class MetadataSizes:
    """Metadata sizes of all groups of a shard. Only changed values are measured again."""

    def __init__(self) -> None:
        self.total = 0
        self.beside = 0
        """Approximate memory of groups and members besides the metadata."""
        self._by_group: dict[str, dict[str, Any]] = {}

    def note(self, group_id: str, metadata: dict[str, Any]) -> None:
        """Replace the metadata of a group's members. `metadata`: by member id; immutable values."""
        before = self._by_group.get(group_id, {})
        for member_id, value in metadata.items():
            was = before.get(member_id)
            if was is not value and was != value:
                self.total += metadata_size(value) - metadata_size(was)
        self.total -= sum(metadata_size(was) for member_id, was in before.items() if member_id not in metadata)
        if before.keys() != metadata.keys():
            self.beside += _beside(group_id, metadata) - _beside(group_id, before)
        if metadata:
            self._by_group[group_id] = metadata
        else:
            self._by_group.pop(group_id, None)

    def beside_of(self, group_id: str, member_id: str) -> int:
        """Return the memory that a new member adds besides its metadata; 0 if the group already has the member."""
        members = self._by_group.get(group_id)
        if members is None:
            return 2 * MEMBER_BYTES + len(group_id) + len(member_id)
        return 0 if member_id in members else MEMBER_BYTES + len(member_id)

    def of(self, group_id: str, member_id: str) -> int:
        """Return the size of one member's metadata."""
        return metadata_size(self._by_group.get(group_id, {}).get(member_id))


def _beside(group_id: str, members: dict[str, Any]) -> int:
    if not members:
        return 0
    return MEMBER_BYTES * (len(members) + 1) + len(group_id) + sum(map(len, members))
