"""How much memory it takes to remember what members say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

ELEMENT_BYTES = 8
"""Of each element of a collection, beside its own bytes."""


def said_bytes(value: Any) -> int:
    """Bytes of the texts and buffers in a value, and of its collections; roughly."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, msgspec.Struct):
        return sum(said_bytes(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, Mapping):
        return sum(ELEMENT_BYTES + said_bytes(key) + said_bytes(one) for key, one in value.items())
    if isinstance(value, tuple | list | frozenset | set):
        return sum(ELEMENT_BYTES + said_bytes(one) for one in value)
    return 0


SHARED = ""
"""In place of a member id: what counts once for all members."""


class SaidBytes:
    """The bytes of all groups of a shard, counted anew only where something else is said."""

    def __init__(self) -> None:
        self.total = 0
        self._by_group: dict[str, dict[str, Any]] = {}

    def note(self, group_id: str, said: dict[str, Any]) -> None:
        """What the members of a group say now, by member id; immutable values."""
        before = self._by_group.get(group_id, {})
        for member_id, value in said.items():
            was = before.get(member_id)
            if was is not value and was != value:
                self.total += said_bytes(value) - said_bytes(was)
        self.total -= sum(said_bytes(was) for member_id, was in before.items() if member_id not in said)
        if said:
            self._by_group[group_id] = said
        else:
            self._by_group.pop(group_id, None)

    def of(self, group_id: str, member_id: str) -> int:
        """Of one member."""
        return said_bytes(self._by_group.get(group_id, {}).get(member_id))
