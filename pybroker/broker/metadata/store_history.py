"""Detects that the metadata store was restored from a backup. A restored ZooKeeper has the right cluster id but an old
state. A broker that trusted this state would treat live topics as unknown, and would treat deletions as final that were
later undone.

Every controller writes its epoch, a random word and the number of its first decision to the store; decisions are
counted across epochs. A broker stores on its own disk the last epoch, the word of that epoch, and the number of the
last decision that it has received. The store is the same and not older if two conditions hold: the store still has this
epoch with this word, and no later epoch began before this decision. The conditions detect a restore even if the
restored store contains new decisions. A comparison of numbers (zxid, epoch) would not detect it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pybroker.broker.metadata import znodes

FILE_NAME = "cluster-seen"
"""The file in the first log directory in which `store_guard` keeps this history."""

TERMS_MAX = 1_000
"""Limit of terms in the store; the latest are kept."""


class ControllerHistory(NamedTuple):
    """The last controller decision that a broker has received."""

    epoch: int
    word: str
    decision: int


class StoredTerm(NamedTuple):
    """One term of a controller, as stored."""

    word: str
    first_decision: int


def set_back(seen: ControllerHistory | None, offices: Mapping[int, StoredTerm], last_decision: int) -> str | None:
    """Return the reason why the store is another store than this broker has seen, or an older state of it; None if it
    is neither. `offices`: the store's terms by epoch; `last_decision`: its number of decisions. Terms before the oldest
    in `offices` have been removed, and prove nothing."""
    if seen is None:
        return None
    term = offices.get(seen.epoch)
    if term is None:
        if offices and min(offices) > seen.epoch:
            return None
        return f"this broker has seen controller epoch {seen.epoch}, which the store does not contain"
    if term.word != seen.word:
        return f"controller epoch {seen.epoch} in the store is not the one that this broker has seen"
    later = [office.first_decision for epoch, office in offices.items() if epoch > seen.epoch]
    end = min(later, default=last_decision + 1)
    if seen.decision >= end:
        return (
            f"this broker has seen decision {seen.decision} of controller epoch {seen.epoch}, but the store ends "
            f"at {end - 1}"
        )
    return None


def encode_terms(offices: Mapping[int, StoredTerm]) -> bytes:
    """Return the content of /controller_offices: the latest terms."""
    latest = sorted(offices)[-TERMS_MAX:]
    return msgspec.json.encode({"version": 1, "offices": {str(epoch): tuple(offices[epoch]) for epoch in latest}})


class _Terms(msgspec.Struct):
    offices: dict[int, StoredTerm]


def decode_terms(data: bytes) -> dict[int, StoredTerm]:
    """Return the terms in /controller_offices, which is empty at first. Raises DamagedNodeError."""
    if not data:
        return {}
    node: _Terms = znodes.decode_json(znodes.OFFICES, data, _Terms)
    return node.offices


def term_of(offices: Mapping[int, StoredTerm], decision: int) -> tuple[int, StoredTerm] | None:
    """Return the epoch and the term in which a decision was made; None if the store no longer has this term."""
    begun = [epoch for epoch, term in offices.items() if term.first_decision <= decision]
    return (max(begun), offices[max(begun)]) if begun else None


class Acceptance(msgspec.Struct, frozen=True):
    """The content of /cluster/restored: an operator has accepted the current state of the store."""

    id: str
    accepted_ms: int

    def encode(self) -> bytes:
        return msgspec.json.encode({"version": 1, **msgspec.structs.asdict(self)})


def decode_acceptance(data: bytes) -> Acceptance:
    """Return the acceptance. Raises DamagedNodeError."""
    node: Acceptance = znodes.decode_json(znodes.RESTORED, data, Acceptance)
    return node
