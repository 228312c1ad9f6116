"""What becomes of a partition directory that no request has claimed yet: one pure decision.

| the directory | what is known of its id | its place (name, partition) in the request | becomes |
|---|---|---|---|
| holds the id of the request | – | claimed | SERVED |
| the same, a second time | – | claimed | ASIDE: the first of `log.dirs` is opened |
| holds the id of a live topic of another name | – | any | ASIDE: somebody copied or renamed it |
| has no readable id | – | claimed, nothing else is there | ADOPTED, if it may be: see `strays` |
| has no readable id | – | claimed, its own directory is there, or not claimed | ASIDE |
| has no readable id | – | claimed, other directories are there | REFUSED |
| another id | it is dead: a deletion record says so | any | STAGED, with the usual delay |
| another id | it lives, and this broker is none of its replicas | any | STAGED, with the usual delay |
| another id | it is coming back | any | KEPT: the request is not the whole truth |
| another id | nothing, or it lives here | claimed by an id that begins above every leader epoch in it | STAGED: its |
| | | | successor (`succeeds`) |
| another id | it lives here | any other | KEPT: the request is not the whole truth |
| another id | nothing | claimed, its own directory is there | ASIDE |
| another id | nothing | claimed, and nothing proves which one comes later | REFUSED |
| another id | nothing | not claimed | UNKNOWN: put aside without a deadline where the cluster's store is |
| | | | complete (several brokers), else left where it is |

Only a FULL request says anything of places that it does not claim (KIP-516: an INCREMENTAL one is not guaranteed to
contain all partitions); from an INCREMENTAL one nothing follows for them.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

_Id = TypeVar("_Id")


class Evidence(Enum):
    """What is known of an id, from the store (read after a sync) and from what the same controller has shown."""

    NOTHING = "nothing"
    DEAD = "dead"
    """It has a deletion record that says so."""
    RETURNING = "returning"
    """Its deletion record says that it is being undeleted."""
    ELSEWHERE = "elsewhere"
    """It lives, and the partition has no replica here."""
    DEPARTED = "departed"
    """The same, and its topic says that the partition was moved away from here."""
    HERE = "here"
    """It lives, with a replica of the partition here; the request does not say so."""
    OTHER_NAME = "other name"
    """It lives under another name than the directory's."""


class Outcome(Enum):
    """See the module's table."""

    SERVED = "served"
    STAGED = "staged"
    ADOPTED = "adopted"
    ASIDE = "aside"
    KEPT = "kept"
    UNKNOWN = "unknown"
    REFUSED = "refused"


class Found(NamedTuple, Generic[_Id]):
    """A directory."""

    topic_id: _Id | None
    """None: it has none that can be read."""
    last_epoch: int
    """The highest leader epoch in it; -1: it never had one."""
    first: bool = True
    """No other directory of this place with this id comes before it in `log.dirs`."""


class Claim(NamedTuple, Generic[_Id]):
    """What the request says about the directory's place."""

    topic_id: _Id
    leader_epoch: int
    present: bool
    """A directory with that id is there."""
    alone: bool
    """No other directory is there than the one in question."""


def succeeds(leader_epoch: int, last_epoch: int) -> bool:
    """Whether an incarnation that begins with `leader_epoch` proves that it comes after one whose highest local leader
    epoch is `last_epoch`: leader epochs of a name never start again. Holds for LeaderAndIsr of every type, for
    partitions in service and for directories."""
    return leader_epoch > last_epoch


def decide(found: Found[_Id], claim: Claim[_Id] | None, evidence: Evidence, *, full: bool) -> Outcome:
    """The outcome for one directory. Without a claim, only of a FULL request (`full`) does anything follow."""
    if claim is None and not full:
        return Outcome.KEPT
    if claim is not None and found.topic_id == claim.topic_id:
        return Outcome.SERVED if found.first else Outcome.ASIDE
    if found.topic_id is None:
        if claim is None or claim.present:
            return Outcome.ASIDE
        return Outcome.ADOPTED if claim.alone else Outcome.REFUSED
    match evidence:
        case Evidence.OTHER_NAME:
            return Outcome.ASIDE
        case Evidence.DEAD | Evidence.ELSEWHERE | Evidence.DEPARTED:
            return Outcome.STAGED
        case Evidence.RETURNING:
            return Outcome.KEPT
        case Evidence.HERE | Evidence.NOTHING:
            if claim is not None and succeeds(claim.leader_epoch, found.last_epoch):
                return Outcome.STAGED
            if evidence is Evidence.HERE:
                return Outcome.KEPT
            if claim is None:
                return Outcome.UNKNOWN
            return Outcome.ASIDE if claim.present else Outcome.REFUSED
