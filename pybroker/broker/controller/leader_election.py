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
    """The result of an election: the leader (-1: none), the ISR, and the suspects (replicas that may have lost the end
    of their logs)."""

    leader: int
    isr: tuple[int, ...]
    suspect: tuple[LogEnd, ...] = ()
    doubtful: bool = False
    """True if the leader is a suspect: it may have lost records that consumers or followers have already read."""
    unclean: bool = False
    """True if the election did not wait for a replica that may have more records."""


UNCLEAN = "unclean.leader.election.enable"


def with_suspects(partition: PartitionImage, suspect: frozenset[int], anew: frozenset[int]) -> PartitionImage:
    """Record the ISR members in `suspect` as suspects: they may have lost the end of their logs. Discard the log ends
    that brokers in `anew` reported, because these brokers have restarted. A replica that may begin with an empty log
    keeps this permission."""
    known = {log_end.broker_id: log_end for log_end in partition.suspect}
    members = [*known, *(member for member in partition.isr if member in suspect and member not in known)]
    suspects = tuple(
        LogEnd(member, -1, UNKNOWN_END)
        if (member in suspect or member in anew) and not begins_empty(partition, member)
        else known[member]
        for member in members
    )
    return partition if suspects == partition.suspect else msgspec.structs.replace(partition, suspect=suspects)


def with_reported_log_end(partition: PartitionImage, end: LogEnd) -> PartitionImage:
    """Return the partition with a log end that a replica has just reported."""
    others = tuple(log_end for log_end in partition.suspect if log_end.broker_id != end.broker_id)
    return msgspec.structs.replace(partition, suspect=(*others, end))


def elect(
    partition: PartitionImage,
    alive: frozenset[int],
    *,
    emptied: frozenset[int] = frozenset(),
    unclean: bool = False,
) -> LeaderElection:
    """Elect the first replica in assignment order that is in sync and alive. If there is no such replica, the partition
    has no leader and keeps its ISR, because only the ISR has all acknowledged records. But if `unclean` is set, any
    live replica becomes leader and the only ISR member.

    Suspects leave every ISR that has another member, alive or not. If all members are suspects, the election waits
    until all of them have reported their log ends, and the longest log wins. If there is only one suspect, it becomes
    leader without a report.

    Brokers in `emptied` have lost a log directory, so their log may be missing. If the partition has other replicas,
    such a broker becomes leader only in an unclean election, and only if no other replica can.
    """
    suspects = {log_end.broker_id: log_end for log_end in partition.suspect}
    trusted = tuple(member for member in partition.isr if member not in suspects)
    candidates = trusted or tuple(suspects)
    barred = emptied if len(partition.replicas) > 1 and emptied.issuperset(candidates) else frozenset()
    if trusted:
        for replica in partition.replicas:
            if replica in trusted and replica in alive and replica not in barred:
                return LeaderElection(
                    replica, tuple(member for member in trusted if member in alive), partition.suspect
                )
    else:
        furthest = _furthest(partition, alive - barred)
        if furthest is not None:
            doubtful = len(partition.replicas) > 1 and not begins_empty(partition, furthest)
            return LeaderElection(furthest, (furthest,), _beginning(partition, furthest), doubtful)
    if unclean:

        def rank(replica: int) -> tuple[bool, bool, int, int]:
            known = suspects.get(replica)
            lost = replica in barred or (known is not None and known.end == MISSING_LOG)
            return (lost, known is None, *((0, 0) if known is None else (-known.epoch, -known.end)))

        for replica in sorted(partition.replicas, key=rank):
            if replica in alive:
                return LeaderElection(
                    replica, (replica,), _beginning(partition, replica), replica in suspects, unclean=True
                )
    # If there is only one suspect, its log end is not needed.
    kept = trusted or len(suspects) > 1 or any(log_end.end == MISSING_LOG for log_end in suspects.values())
    return LeaderElection(NO_LEADER, trusted or partition.isr, partition.suspect if kept else ())


def _furthest(partition: PartitionImage, alive: frozenset[int]) -> int | None:
    """Return the live suspect with the longest log; None if a report is still missing."""
    ends = {log_end.broker_id: (log_end.epoch, log_end.end) for log_end in partition.suspect}
    if len(ends) > 1 and any(log_end.end == UNKNOWN_END for log_end in partition.suspect):
        return None
    best = max(ends.values(), default=(-1, UNKNOWN_END))
    if best == (-1, MISSING_LOG) and not ends.keys() >= set(partition.replicas):
        return None
    return next((replica for replica in partition.replicas if ends.get(replica) == best and replica in alive), None)


def _beginning(partition: PartitionImage, leader: int) -> tuple[LogEnd, ...]:
    """Return the `begins_empty` entry that lets a leader without a log create an empty one."""
    missing = any(log_end.broker_id == leader and log_end.end == MISSING_LOG for log_end in partition.suspect)
    return (LogEnd(leader, partition.leader_epoch + 1, MISSING_LOG),) if missing else ()


def never_began(partition: PartitionImage, emptied: frozenset[int]) -> bool:
    """Return whether the reported logs prove that no record was ever acknowledged.

    This is proved if the partition is young, no reported log has a record, and an in-sync replica has no log. It
    happens when the controller dies before the replica has got the request to create its log. If a log directory was
    lost, a missing log proves nothing.
    """
    suspects = [log_end for log_end in partition.suspect if log_end.end != UNKNOWN_END]
    missing = [log_end for log_end in suspects if log_end.end == MISSING_LOG and log_end.epoch < 0]
    # A replica without a log changes the partition's state at most twice: by its election, and by its report.
    young = partition.young or partition.state_version <= 2 * (1 + len(missing))
    return (
        young
        and all(log_end.end <= 0 or log_end.epoch < 0 for log_end in suspects)
        and any(log_end.broker_id not in emptied for log_end in missing)
    )


def without_false_alarm(election: LeaderElection, partition: PartitionImage, emptied: frozenset[int]) -> LeaderElection:
    """Return the election. Set `doubtful` to False if no record can have been lost."""
    return election._replace(doubtful=election.doubtful and not never_began(partition, emptied))


def awaited(partition: PartitionImage, alive: frozenset[int]) -> tuple[int, ...]:
    """Return the brokers that are down and may have records that the live replicas have lost. Empty if the partition
    has a leader, or if no replica has lost records."""
    if partition.leader != NO_LEADER or not partition.suspect:
        return ()
    suspects = {log_end.broker_id: log_end for log_end in partition.suspect}
    return tuple(
        replica
        for replica in partition.replicas
        if replica not in alive
        and (suspects[replica].end == UNKNOWN_END if replica in suspects else replica in partition.isr)
    )


def emptied_of(image: ClusterImage) -> frozenset[int]:
    """Return the brokers that have lost a log directory; see `elect`."""
    return frozenset(broker_id for broker_id, broker in image.brokers.items() if broker.emptied)


def may_elect_uncleanly(image: ClusterImage, topic: TopicImage) -> bool:
    """Return whether the topic allows unclean elections. While a staged ingest is being linked it does not: a leader
    without the staged segments could never finish the ingest."""
    own = topic.config.get(UNCLEAN)
    allowed = image.unclean_elections if own is None else own == "true"
    return allowed and not linking_partitions(image, topic.topic_id)


def unclean_elections_of(broker_configs: Mapping[str, ConfigImage], broker_id: int, static: bool) -> bool:
    """Return the value of `unclean.leader.election.enable` for topics that do not set it. `static`: the value in this
    controller's configuration file."""
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
    """Return the election of the preferred leader; None if that replica is down or not in sync."""
    first = partition.replicas[0]
    return (
        LeaderElection(first, partition.isr, partition.suspect) if first in alive and first in partition.isr else None
    )


def linking_partitions(image: ClusterImage, topic_id: Uuid) -> set[int]:
    """Return the partitions of a topic in which a committed ingest is not yet linked on every in-sync replica. Until
    then, no other replica may join the ISR or become leader: it may lack both the records and the staged segments."""
    return {
        index
        for record in image.committed_ingests.values()
        if record.state == COMMITTING and record.topic_id == topic_id
        for index in record.pending
    }
