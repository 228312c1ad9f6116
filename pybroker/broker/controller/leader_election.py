"""Who leads a partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pybroker.broker.controller.attaching import attaching
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ConfigImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.znodes import DEFAULT_BROKER_CONFIG, MISSING_LOG, UNKNOWN_END, LogEnd


class Election(NamedTuple):
    """Outcome: the leader (-1 for none), the in-sync replicas, and who is suspect from now on."""

    leader: int
    isr: tuple[int, ...]
    suspect: tuple[LogEnd, ...] = ()
    doubtful: bool = False
    """The leader is one of the suspect: others may have seen what it has lost."""
    unclean: bool = False
    """It was not waited for others, which may have more."""


UNCLEAN = "unclean.leader.election.enable"


def suspecting(partition: PartitionImage, suspect: frozenset[int], anew: frozenset[int]) -> PartitionImage:
    """`suspect` may have lost the end of what they held: those that were in sync are noted. Of `anew`, which have begun
    another life, what was told of their logs before does not count; but a log that may begin empty still may."""
    known = {one.broker_id: one for one in partition.suspect}
    members = [*known, *(member for member in partition.isr if member in suspect and member not in known)]
    told = tuple(
        LogEnd(member, -1, UNKNOWN_END)
        if (member in suspect or member in anew) and not begins_empty(partition, member)
        else known[member]
        for member in members
    )
    return partition if told == partition.suspect else msgspec.structs.replace(partition, suspect=told)


def telling(partition: PartitionImage, end: LogEnd) -> PartitionImage:
    """It is known now how far that log goes."""
    others = tuple(one for one in partition.suspect if one.broker_id != end.broker_id)
    return msgspec.structs.replace(partition, suspect=(*others, end))


def elect(
    partition: PartitionImage,
    alive: frozenset[int],
    *,
    emptied: frozenset[int] = frozenset(),
    unclean: bool = False,
) -> Election:
    """The first replica in assignment order that is in sync and alive. Without one there is no leader and the ISR stays
    what it was: only those replicas hold all that was acknowledged. With `unclean` any replica that is alive leads
    then, alone in the ISR.

    Those that are suspect leave every ISR that has another member, alive or not. Where all that were in sync are, the
    one whose log goes furthest leads, when all have told how far theirs go; the last one that was in sync leads at
    once. `emptied` have lost a log directory, and a log may be missing: where all that were in sync have lost what they
    had, and there are other replicas, they lead only uncleanly, and after the others.
    """
    told = {one.broker_id: one for one in partition.suspect}
    trusted = tuple(member for member in partition.isr if member not in told)
    candidates = trusted or tuple(told)
    barred = emptied if len(partition.replicas) > 1 and emptied.issuperset(candidates) else frozenset()
    if trusted:
        for replica in partition.replicas:
            if replica in trusted and replica in alive and replica not in barred:
                return Election(replica, tuple(one for one in trusted if one in alive), partition.suspect)
    else:
        furthest = _furthest(partition, alive - barred)
        if furthest is not None:
            doubtful = len(partition.replicas) > 1 and not begins_empty(partition, furthest)
            return Election(furthest, (furthest,), _beginning(partition, furthest), doubtful)
    if unclean:

        def rank(replica: int) -> tuple[bool, bool, int, int]:
            known = told.get(replica)
            lost = replica in barred or (known is not None and known.end == MISSING_LOG)
            return (lost, known is None, *((0, 0) if known is None else (-known.epoch, -known.end)))

        for replica in sorted(partition.replicas, key=rank):
            if replica in alive:
                return Election(replica, (replica,), _beginning(partition, replica), replica in told, unclean=True)
    # Of a single one nothing has to be known.
    kept = trusted or len(told) > 1 or any(one.end == MISSING_LOG for one in told.values())
    return Election(NO_LEADER, trusted or partition.isr, partition.suspect if kept else ())


def _furthest(partition: PartitionImage, alive: frozenset[int]) -> int | None:
    """Of the suspect."""
    ends = {one.broker_id: (one.epoch, one.end) for one in partition.suspect}
    if len(ends) > 1 and any(one.end == UNKNOWN_END for one in partition.suspect):
        return None
    best = max(ends.values(), default=(-1, UNKNOWN_END))
    if best == (-1, MISSING_LOG) and not ends.keys() >= set(partition.replicas):
        return None
    return next((one for one in partition.replicas if ends.get(one) == best and one in alive), None)


def _beginning(partition: PartitionImage, leader: int) -> tuple[LogEnd, ...]:
    """What stays noted of a leader that has no log: it makes an empty one, see `begins_empty`."""
    missing = any(one.broker_id == leader and one.end == MISSING_LOG for one in partition.suspect)
    return (LogEnd(leader, partition.leader_epoch + 1, MISSING_LOG),) if missing else ()


def begins_empty(partition: PartitionImage, replica: int) -> bool:
    """Whether a replica leads, or was to, without a log: nothing was left of it, or it was not made yet."""
    return bool(partition.suspect) and any(
        one.broker_id == replica and one.end == MISSING_LOG and one.epoch >= 0 for one in partition.suspect
    )


def never_began(partition: PartitionImage, emptied: frozenset[int]) -> bool:
    """Whether the logs that are known prove that no record was acknowledged: the partition is young, none of them has
    a record, and a replica in sync has no log, as when the controller dies before it sends the order to make it. A log
    directory that is gone proves nothing."""
    told = [one for one in partition.suspect if one.end != UNKNOWN_END]
    missing = [one for one in told if one.end == MISSING_LOG and one.epoch < 0]
    # Each replica without a log costs at most its election and its answer.
    young = partition.young or partition.state_version <= 2 * (1 + len(missing))
    return (
        young
        and all(one.end <= 0 or one.epoch < 0 for one in told)
        and any(one.broker_id not in emptied for one in missing)
    )


def without_false_alarm(election: Election, partition: PartitionImage, emptied: frozenset[int]) -> Election:
    """The same, not doubtful where nothing can be lost."""
    return election._replace(doubtful=election.doubtful and not never_began(partition, emptied))


def awaited(partition: PartitionImage, alive: frozenset[int]) -> tuple[int, ...]:
    """Who is not there, and may have what those have lost that are; () of a partition that is led, or where nobody has
    lost anything."""
    if partition.leader != NO_LEADER or not partition.suspect:
        return ()
    told = {one.broker_id: one for one in partition.suspect}
    return tuple(
        one
        for one in partition.replicas
        if one not in alive and (told[one].end == UNKNOWN_END if one in told else one in partition.isr)
    )


def emptied_of(image: ClusterImage) -> frozenset[int]:
    """Brokers that have lost a log directory, see `elect`."""
    return frozenset(broker_id for broker_id, broker in image.brokers.items() if broker.emptied)


def may_elect_uncleanly(image: ClusterImage, topic: TopicImage) -> bool:
    """Whether a topic rather loses records than to be without a leader. Not while a staged ingest is being attached: a
    leader without what was staged could never finish that."""
    own = topic.config.get(UNCLEAN)
    allowed = image.unclean_elections if own is None else own == "true"
    return allowed and not attaching(image, topic.topic_id)


def unclean_elections_of(broker_configs: Mapping[str, ConfigImage], broker_id: int, static: bool) -> bool:
    """What holds for topics that do not say, where that broker is the controller; `static` is what its file says."""
    for name in (str(broker_id), DEFAULT_BROKER_CONFIG):
        stored = broker_configs.get(name)
        if stored is not None and UNCLEAN in stored.config:
            return stored.config[UNCLEAN] == "true"
    return static


def allows_more(before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> bool:
    """Whether a change allows unclean elections where they were not allowed."""
    if after.unclean_elections and not before.unclean_elections:
        return True
    return any(
        known.config != topic.config and may_elect_uncleanly(after, topic) and not may_elect_uncleanly(before, known)
        for topic in delta.topics
        if (known := before.topics.get(topic.name)) is not None
    )


def preferred(partition: PartitionImage, alive: frozenset[int]) -> Election | None:
    """The first replica of the assignment as leader; None if it is not alive and in sync."""
    first = partition.replicas[0]
    return Election(first, partition.isr, partition.suspect) if first in alive and first in partition.isr else None
