"""Was the store set back? ZooKeeper that was restored from a backup has the cluster's id and names states that were;
whoever obeys it takes topics for unknown that are alive, and deletions for final that were taken back.

Every controller leaves in the store, with its epoch, a random word and the number of its first decision; decisions
are counted across epochs. A broker keeps on its disk the last of both that it has heard of. The store is the same one,
and not older, exactly if it still has that epoch with that word, and no later epoch began before that decision. This
also holds when the store has caught up in the meantime, which a comparison of numbers (zxid, epoch) would not notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pybroker.broker.metadata import znodes

OFFICES_MAX = 1_000
"""So many are remembered, the latest."""


class Seen(NamedTuple):
    """What a broker has heard from controllers, the newest of it."""

    epoch: int
    word: str
    decision: int


class Office(NamedTuple):
    """One controller's time in office, as the store has it."""

    word: str
    first_decision: int


def set_back(seen: Seen | None, offices: Mapping[int, Office], last_decision: int) -> str | None:
    """Why a store with these offices by epoch, and so many decisions, is older than what was seen of it, or another
    one; None if nothing speaks against it. Offices before the oldest in `offices` are forgotten: they prove nothing."""
    if seen is None:
        return None
    office = offices.get(seen.epoch)
    if office is None:
        if offices and min(offices) > seen.epoch:
            return None
        return f"this broker has obeyed controller epoch {seen.epoch}, which the store does not know"
    if office.word != seen.word:
        return f"controller epoch {seen.epoch} is not the one that this broker has obeyed"
    later = [one.first_decision for epoch, one in offices.items() if epoch > seen.epoch]
    end = min(later, default=last_decision + 1)
    if seen.decision >= end:
        return (
            f"this broker knows decision {seen.decision} of controller epoch {seen.epoch}, the store ends at {end - 1}"
        )
    return None


def encode_offices(offices: Mapping[int, Office]) -> bytes:
    """Of /controller_offices: the latest of them."""
    latest = sorted(offices)[-OFFICES_MAX:]
    return msgspec.json.encode({"version": 1, "offices": {str(epoch): tuple(offices[epoch]) for epoch in latest}})


class _Offices(msgspec.Struct):
    offices: dict[int, Office]


def decode_offices(data: bytes) -> dict[int, Office]:
    """Of /controller_offices, which is empty at first. Raises DamagedNodeError."""
    if not data:
        return {}
    node: _Offices = znodes.decode_json(znodes.OFFICES, data, _Offices)
    return node.offices


def office_of(offices: Mapping[int, Office], decision: int) -> tuple[int, Office] | None:
    """The epoch and the office in which a decision was made; None if that is forgotten."""
    begun = [epoch for epoch, office in offices.items() if office.first_decision <= decision]
    return (max(begun), offices[max(begun)]) if begun else None


class Acceptance(msgspec.Struct, frozen=True):
    """/cluster/restored: an operator has said that the store is to be taken as it is."""

    id: str
    accepted_ms: int

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})


def decode_acceptance(data: bytes) -> Acceptance:
    """Raises DamagedNodeError."""
    node: Acceptance = znodes.decode_json(znodes.RESTORED, data, Acceptance)
    return node
