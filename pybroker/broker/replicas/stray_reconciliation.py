"""The decision about a partition directory that no request has claimed yet. Pure.

| the directory | evidence about its id | its place (name, partition) in the request | outcome |
|---|---|---|---|
| holds the id of the request | – | claimed | SERVED |
| the same, a second time | – | claimed | ASIDE: the first of `log.dirs` is opened |
| holds the id of a live topic of another name | – | any | ASIDE: it was copied or renamed |
| has no readable id | – | claimed, no other directory is there | ADOPTED, if allowed: see `strays` |
| has no readable id | – | claimed, its own directory is there, or not claimed | ASIDE |
| has no readable id | – | claimed, other directories are there | REFUSED |
| another id | it is dead: a deletion record says so | any | STAGED, with the usual delay |
| another id | it is live, and this broker has no replica of it | any | STAGED, with the usual delay |
| another id | it is being undeleted | any | KEPT: the request is not complete |
| another id | none, or it is live here | claimed by an id that begins above every leader epoch in it | STAGED: its |
|            |                         |              | successor (`succeeds`) |
| another id | it is live here | any other | KEPT: the request is not complete |
| another id | none | claimed, its own directory is there | ASIDE |
| another id | none | claimed, and nothing proves which one is later | REFUSED |
| another id | none | not claimed | UNKNOWN: staged without a deadline if the cluster's store is |
|            |      |             | complete (several brokers), else left in place |

If a request does not claim a place, that means something only if the request is FULL: KIP-516 does not guarantee that
an INCREMENTAL request contains all partitions.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

_Id = TypeVar("_Id")


class Evidence(Enum):
    """Evidence about a topic id. It comes from the store, read after a sync, or from the view of the same controller.
    """

    NOTHING = "nothing"
    DEAD = "dead"
    """A deletion record proves that the id is dead."""
    RETURNING = "returning"
    """The deletion record shows that the topic is being undeleted."""
    ELSEWHERE = "elsewhere"
    """The topic is live, and this broker has no replica of the partition."""
    DEPARTED = "departed"
    """The topic is live, and its node records that the partition was moved away from this broker."""
    HERE = "here"
    """The topic is live, and this broker has a replica of the partition, but the request does not name the replica."""
    OTHER_NAME = "other name"
    """The topic is live, but has another name than the directory."""


class ReconcileOutcome(Enum):
    """The outcomes of the module's table."""

    SERVED = "served"
    STAGED = "staged"
    ADOPTED = "adopted"
    ASIDE = "aside"
    KEPT = "kept"
    UNKNOWN = "unknown"
    REFUSED = "refused"


class FoundDirectory(NamedTuple, Generic[_Id]):
    """A partition directory."""

    topic_id: _Id | None
    """None if the directory has no readable id."""
    last_epoch: int
    """The highest leader epoch in the directory; -1 if it never had one."""
    first: bool = True
    """False if an earlier directory in `log.dirs` has the same place and id."""


class Claim(NamedTuple, Generic[_Id]):
    """The request's claim to the place of the directory."""

    topic_id: _Id
    leader_epoch: int
    present: bool
    """True if a directory with the claimed id exists."""
    alone: bool
    """True if no other directory exists at the place."""


def succeeds(leader_epoch: int, last_epoch: int) -> bool:
    """Return whether an incarnation that begins with `leader_epoch` is certainly later than another incarnation, whose
    highest local leader epoch is `last_epoch`. It is later if `leader_epoch` is higher, because the leader epochs of a
    name only increase. This applies to LeaderAndIsr of every type, to partitions in service and to directories."""
    return leader_epoch > last_epoch


def decide(found: FoundDirectory[_Id], claim: Claim[_Id] | None, evidence: Evidence, *, full: bool) -> ReconcileOutcome:
    """Return the outcome for one directory. If the request does not claim its place, the directory stays as it is,
    unless the request is FULL (`full`).
    """
    if claim is None and not full:
        return ReconcileOutcome.KEPT
    if claim is not None and found.topic_id == claim.topic_id:
        return ReconcileOutcome.SERVED if found.first else ReconcileOutcome.ASIDE
    if found.topic_id is None:
        if claim is None or claim.present:
            return ReconcileOutcome.ASIDE
        return ReconcileOutcome.ADOPTED if claim.alone else ReconcileOutcome.REFUSED
    match evidence:
        case Evidence.OTHER_NAME:
            return ReconcileOutcome.ASIDE
        case Evidence.DEAD | Evidence.ELSEWHERE | Evidence.DEPARTED:
            return ReconcileOutcome.STAGED
        case Evidence.RETURNING:
            return ReconcileOutcome.KEPT
        case Evidence.HERE | Evidence.NOTHING:
            if claim is not None and succeeds(claim.leader_epoch, found.last_epoch):
                return ReconcileOutcome.STAGED
            if evidence is Evidence.HERE:
                return ReconcileOutcome.KEPT
            if claim is None:
                return ReconcileOutcome.UNKNOWN
            return ReconcileOutcome.ASIDE if claim.present else ReconcileOutcome.REFUSED
