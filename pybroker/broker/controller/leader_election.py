"""Leader election of partitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pybroker.broker.metadata.image import (
    NO_LEADER,
    ClusterImage,
    ConfigImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
    begins_empty,
)
from pybroker.broker.metadata.ingest_records import COMMITTING
from pybroker.broker.metadata.znodes import DEFAULT_BROKER_CONFIG, MISSING_LOG, UNKNOWN_END, LogEnd
from pybroker.native import Uuid


class LeaderElection(NamedTuple):
    """The outcome: the leader (-1 for none), the in-sync replicas, and the new suspects."""

    leader: int
    isr: tuple[int, ...]
    suspect: tuple[LogEnd, ...] = ()
    doubtful: bool = False
    """The leader is a suspect: consumers or followers may have seen records that it has lost."""
    unclean: bool = False
    """The election did not wait for other replicas that may have more records."""


UNCLEAN = "unclean.leader.election.enable"


def with_suspects(partition: PartitionImage, suspect: frozenset[int], anew: frozenset[int]) -> PartitionImage:
    """Note the ISR members in `suspect`, which may have lost the end of their logs. Log ends that brokers in `anew`
    reported before their restart no longer count; a replica that may begin with an empty log keeps that permission.
    """
    known = {one.broker_id: one for one in partition.suspect}
    members = [*known, *(member for member in partition.isr if member in suspect and member not in known)]
    told = tuple(
        LogEnd(member, -1, UNKNOWN_END)
        if (member in suspect or member in anew) and not begins_empty(partition, member)
        else known[member]
        for member in members
    )
    return partition if told == partition.suspect else msgspec.structs.replace(partition, suspect=told)


def with_reported_log_end(partition: PartitionImage, end: LogEnd) -> PartitionImage:
    """Return the partition with a newly reported log end."""
    others = tuple(one for one in partition.suspect if one.broker_id != end.broker_id)
    return msgspec.structs.replace(partition, suspect=(*others, end))


def elect(
    partition: PartitionImage,
    alive: frozenset[int],
    *,
    emptied: frozenset[int] = frozenset(),
    unclean: bool = False,
) -> LeaderElection:
    """Elect the first replica in assignment order that is in sync and alive. Without one, the partition has no leader
    and keeps its ISR: only those replicas hold all acknowledged records. With `unclean`, any live replica then leads,
    alone in the ISR.

    Suspects leave every ISR that has another member, alive or not. If all members are suspects, the one with the
    longest log leads after all have reported; a single suspect leads at once. Brokers in `emptied` have lost a log
    directory, so a log may be missing: if all candidates are among them and there are other replicas, they lead only
    uncleanly, and after the other replicas.
    """
    told = {one.broker_id: one for one in partition.suspect}
    trusted = tuple(member for member in partition.isr if member not in told)
    candidates = trusted or tuple(told)
    barred = emptied if len(partition.replicas) > 1 and emptied.issuperset(candidates) else frozenset()
    if trusted:
        for replica in partition.replicas:
            if replica in trusted and replica in alive and replica not in barred:
                return LeaderElection(replica, tuple(one for one in trusted if one in alive), partition.suspect)
    else:
        furthest = _furthest(partition, alive - barred)
        if furthest is not None:
            doubtful = len(partition.replicas) > 1 and not begins_empty(partition, furthest)
            return LeaderElection(furthest, (furthest,), _beginning(partition, furthest), doubtful)
    if unclean:

        def rank(replica: int) -> tuple[bool, bool, int, int]:
            known = told.get(replica)
            lost = replica in barred or (known is not None and known.end == MISSING_LOG)
            return (lost, known is None, *((0, 0) if known is None else (-known.epoch, -known.end)))

        for replica in sorted(partition.replicas, key=rank):
            if replica in alive:
                return LeaderElection(
                    replica, (replica,), _beginning(partition, replica), replica in told, unclean=True
                )
    # For a single suspect, no log end is needed.
    kept = trusted or len(told) > 1 or any(one.end == MISSING_LOG for one in told.values())
    return LeaderElection(NO_LEADER, trusted or partition.isr, partition.suspect if kept else ())


def _furthest(partition: PartitionImage, alive: frozenset[int]) -> int | None:
    """Return the live suspect with the longest log; None if it is not known yet."""
    ends = {one.broker_id: (one.epoch, one.end) for one in partition.suspect}
    if len(ends) > 1 and any(one.end == UNKNOWN_END for one in partition.suspect):
        return None
    best = max(ends.values(), default=(-1, UNKNOWN_END))
    if best == (-1, MISSING_LOG) and not ends.keys() >= set(partition.replicas):
        return None
    return next((one for one in partition.replicas if ends.get(one) == best and one in alive), None)


def _beginning(partition: PartitionImage, leader: int) -> tuple[LogEnd, ...]:
    """Return the mark that lets a leader without a log create an empty one, see `begins_empty`."""
    missing = any(one.broker_id == leader and one.end == MISSING_LOG for one in partition.suspect)
    return (LogEnd(leader, partition.leader_epoch + 1, MISSING_LOG),) if missing else ()


def never_began(partition: PartitionImage, emptied: frozenset[int]) -> bool:
    """Return whether the reported logs prove that no record was acknowledged. They do if the partition is young, none
    of them has a record, and an in-sync replica has no log, as when the controller dies before it sends the order to
    create it. A lost log directory proves nothing."""
    told = [one for one in partition.suspect if one.end != UNKNOWN_END]
    missing = [one for one in told if one.end == MISSING_LOG and one.epoch < 0]
    # Each replica without a log costs at most two state changes: its election and its answer.
    young = partition.young or partition.state_version <= 2 * (1 + len(missing))
    return (
        young
        and all(one.end <= 0 or one.epoch < 0 for one in told)
        and any(one.broker_id not in emptied for one in missing)
    )


def without_false_alarm(election: LeaderElection, partition: PartitionImage, emptied: frozenset[int]) -> LeaderElection:
    """Return the election without `doubtful` if no record can be lost."""
    return election._replace(doubtful=election.doubtful and not never_began(partition, emptied))


def awaited(partition: PartitionImage, alive: frozenset[int]) -> tuple[int, ...]:
    """Return the brokers that are down and may have records that the live replicas have lost. Empty if the partition
    has a leader, or no replica has lost anything."""
    if partition.leader != NO_LEADER or not partition.suspect:
        return ()
    told = {one.broker_id: one for one in partition.suspect}
    return tuple(
        one
        for one in partition.replicas
        if one not in alive and (told[one].end == UNKNOWN_END if one in told else one in partition.isr)
    )


def emptied_of(image: ClusterImage) -> frozenset[int]:
    """Return the brokers that have lost a log directory, see `elect`."""
    return frozenset(broker_id for broker_id, broker in image.brokers.items() if broker.emptied)


def may_elect_uncleanly(image: ClusterImage, topic: TopicImage) -> bool:
    """Return whether the topic allows unclean elections. Not while a staged ingest is linking: a leader without the
    staged segments could never finish it."""
    own = topic.config.get(UNCLEAN)
    allowed = image.unclean_elections if own is None else own == "true"
    return allowed and not linking_partitions(image, topic.topic_id)


def unclean_elections_of(broker_configs: Mapping[str, ConfigImage], broker_id: int, static: bool) -> bool:
    """Return the default for topics without the config, as set for that controller; `static` is the value from its
    configuration file."""
    for name in (str(broker_id), DEFAULT_BROKER_CONFIG):
        stored = broker_configs.get(name)
        if stored is not None and UNCLEAN in stored.config:
            return stored.config[UNCLEAN] == "true"
    return static


def allows_more(before: ClusterImage, after: ClusterImage, delta: ImageDelta) -> bool:
    """Return whether a change allows unclean elections that were not allowed before."""
    if after.unclean_elections and not before.unclean_elections:
        return True
    return any(
        known.config != topic.config and may_elect_uncleanly(after, topic) and not may_elect_uncleanly(before, known)
        for topic in delta.topics
        if (known := before.topics.get(topic.name)) is not None
    )


def preferred(partition: PartitionImage, alive: frozenset[int]) -> LeaderElection | None:
    """Return the election of the preferred leader; None if it is not alive and in sync."""
    first = partition.replicas[0]
    return (
        LeaderElection(first, partition.isr, partition.suspect) if first in alive and first in partition.isr else None
    )


def linking_partitions(image: ClusterImage, topic_id: Uuid) -> set[int]:
    """Return the partitions of a topic with a committed ingest that not all in-sync replicas are known to have. Until
    then no other replica may join the ISR or lead: it may have neither the records nor the staged segments."""
    return {
        index
        for record in image.committed_ingests.values()
        if record.state == COMMITTING and record.topic_id == topic_id
        for index in record.pending
    }
