"""Decisions about replicas that may have lost records, from the log ends that their brokers report. Pure."""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import LogEndsTold
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.controller.leader_election import (
    LeaderElection,
    elect,
    emptied_of,
    may_elect_uncleanly,
    with_reported_log_end,
    without_false_alarm,
)
from pybroker.broker.controller.partition_states import NAMED_MAX, Losses, next_state, set_state, with_partitions
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.metadata_store import Operation
from pybroker.broker.metadata.znodes import MISSING_LOG, UNKNOWN_END, LogEnd


def _was_just_made(partition: PartitionImage) -> bool:
    """Return whether the partition is new and no broker has died since its creation, except the controller or leader
    right after it. In this case its logs may not exist yet."""
    return partition.state_version <= 1 + sum(log_end.end == MISSING_LOG for log_end in partition.suspect)


def _asking_the_others(partition: PartitionImage) -> PartitionImage:
    """Return the partition with the replicas outside the ISR recorded as suspects, which makes them report their log
    ends.

    The controller does this as soon as one replica reports that it has no log, because the other in-sync replicas may
    die before they report the same. The replica with the longest log then becomes leader, even if that log is empty.
    """
    known = {log_end.broker_id for log_end in partition.suspect}.union(partition.isr)
    asked = tuple(LogEnd(replica, -1, UNKNOWN_END) for replica in partition.replicas if replica not in known)
    return msgspec.structs.replace(partition, suspect=(*partition.suspect, *asked))


def _hearing(image: ClusterImage, before: PartitionImage, reported: LogEnd) -> PartitionImage:
    """Return the partition with a log end that a replica has just reported.

    A missing log either never existed or was lost. A broker can tell that a log was lost only if the whole log
    directory was lost. In a young partition the log probably never existed: the controller asks the other replicas. If
    none of them has a record, a replica may become leader. If one of them has a record, the partition has had a leader,
    and the lost log may have had more records than the others. The controller then stops waiting for reports, and only
    an unclean election gives the partition a leader.
    """
    after = with_reported_log_end(before, reported)
    if reported.end == MISSING_LOG:
        if _was_just_made(before):
            # The replica with the longest log becomes leader, even if it has records.
            return msgspec.structs.replace(_asking_the_others(after), young=False)
        if before.young and not image.brokers[reported.broker_id].emptied:
            return _asking_the_others(after)
    elif before.young and reported.end > 0 and reported.broker_id not in before.isr:
        in_sync = tuple(log_end for log_end in after.suspect if log_end.broker_id in before.isr)
        return msgspec.structs.replace(after, suspect=in_sync, young=False)
    return after


@decides(LogEndsTold)
def decide_log_ends(image: ClusterImage, event: LogEndsTold) -> Decision:
    """Elect leaders of partitions of which all replicas have reported. A replica without a log leaves the ISR if the
    ISR has another member; it then copies the whole log."""
    registered = image.brokers.get(event.broker_id)
    if registered is None or registered.epoch != event.broker_epoch:
        # The broker has a new broker epoch, in which it will report again.
        return nothing(None)
    changed: dict[str, list[PartitionImage]] = {}
    operations: list[Operation] = []
    losses = Losses()
    behind: list[str] = []
    """Partitions in which only replicas outside the ISR have records."""
    for topic_id, index, epoch, end in event.ends:
        topic = image.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            continue
        partitions = changed.get(topic.name) or list(topic.partitions)
        before = partitions[index]
        reported = LogEnd(event.broker_id, epoch, end)
        if not _matters(before, reported):
            continue
        heard = _hearing(image, before, reported)
        election = _election(image, topic, before, heard, reported)
        if election is None:
            continue
        election = without_false_alarm(election, heard, emptied_of(image))
        if election.leader == NO_LEADER and before.young and not heard.young and end > 0:
            behind.append(f"{topic.name}-{index}")
        losses.note(f"{topic.name}-{index}", before, election)
        after = next_state(image, heard, election)
        if election.leader == before.leader == NO_LEADER:
            # Keep the leader epoch, because no broker has to act on the change.
            after = msgspec.structs.replace(after, leader_epoch=before.leader_epoch)
        partitions[index] = after
        changed[topic.name] = partitions
        operations.append(set_state(topic.name, index, after, before))
    topics = tuple(with_partitions(image.topics[name], partitions) for name, partitions in changed.items())
    delta = ImageDelta(topics=topics)
    warnings = losses.warnings()
    if behind:
        warnings += (
            (
                f"partitions have no leader: only broker {event.broker_id}, which was not in sync, still has records; "
                "the logs of the in-sync replicas are gone. To accept the loss run an unclean election "
                f"(kafka-leader-election --election-type unclean): {', '.join(behind[:NAMED_MAX])}"
            ),
        )
    return Decision(tuple(operations), delta, None, separable=True, warnings=warnings)


def _matters(before: PartitionImage, reported: LogEnd) -> bool:
    """Return whether the reported log end matters: the controller has requested it, or a member of the ISR has no log.
    """
    known = any(log_end.broker_id == reported.broker_id for log_end in before.suspect)
    missing = reported.end == MISSING_LOG
    if not known and not (missing and reported.broker_id in before.isr):
        return False
    # The partition has a leader, and the replica copies the log from the leader.
    return missing or before.leader == NO_LEADER


def _election(
    image: ClusterImage, topic: TopicImage, before: PartitionImage, after: PartitionImage, reported: LogEnd
) -> LeaderElection | None:
    """Return the election, or None if it changes nothing."""
    if before.leader not in (NO_LEADER, reported.broker_id):
        left = tuple(member for member in before.isr if member != reported.broker_id)
        return LeaderElection(before.leader, left, after.suspect) if left != before.isr else None
    alive = frozenset(image.brokers) - image.leaving
    unclean = may_elect_uncleanly(image, topic)
    emptied = emptied_of(image) if before.leader == NO_LEADER else frozenset[int]()
    found = elect(after, alive, emptied=emptied, unclean=unclean)
    return found if found[:3] != (before.leader, before.isr, before.suspect) else None
