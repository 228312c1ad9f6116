"""Decisions about replicas that have lost something, or may have, by what they say of their logs. Pure."""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import LogEndsTold
from pybroker.broker.controller.decision import Decision, decides, nothing
from pybroker.broker.controller.leader_election import (
    Election,
    elect,
    emptied_of,
    may_elect_uncleanly,
    telling,
    without_false_alarm,
)
from pybroker.broker.controller.partition_states import NAMED_MAX, Losses, next_state, set_state, with_partitions
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.store import Operation
from pybroker.broker.metadata.znodes import MISSING_LOG, UNKNOWN_END, LogEnd


def _was_just_made(partition: PartitionImage) -> bool:
    """Whether nothing has happened to it since it was made, but that its controller or leader died at once, and what
    followed from that: then its logs may not have been made."""
    return partition.state_version <= 1 + sum(one.end == MISSING_LOG for one in partition.suspect)


def _asking_the_others(partition: PartitionImage) -> PartitionImage:
    """Those that are not in sync are to tell how far their logs go, too. It is noted as soon as the first one has no
    log: whoever is in sync next may die once more before it is heard to have none either. Whose log goes furthest
    leads then, if only with an empty one."""
    known = {one.broker_id for one in partition.suspect}.union(partition.isr)
    asked = tuple(LogEnd(one, -1, UNKNOWN_END) for one in partition.replicas if one not in known)
    return msgspec.structs.replace(partition, suspect=(*partition.suspect, *asked))


def _hearing(image: ClusterImage, before: PartitionImage, told: LogEnd) -> PartitionImage:
    """What is known with what is told now.

    A log that is missing may never have been made, or may be gone, which its broker cannot tell apart unless the whole
    log directory is. Of a partition that is young the first is likely: the others are asked, and lead if none of them
    has a record. If one has, there was a leader, and what is gone may be more than what is left: they are waited for
    no longer, and it takes an unclean election."""
    after = telling(before, told)
    if told.end == MISSING_LOG:
        if _was_just_made(before):
            # Whoever has most leads, also with records.
            return msgspec.structs.replace(_asking_the_others(after), young=False)
        if before.young and not image.brokers[told.broker_id].emptied:
            return _asking_the_others(after)
    elif before.young and told.end > 0 and told.broker_id not in before.isr:
        in_sync = tuple(one for one in after.suspect if one.broker_id in before.isr)
        return msgspec.structs.replace(after, suspect=in_sync, young=False)
    return after


@decides(LogEndsTold)
def decide_log_ends(image: ClusterImage, event: LogEndsTold) -> Decision:
    """Who has told it all may be elected. A replica without a log leaves the ISR that it is in, if it has another
    member: it copies everything then."""
    registered = image.brokers.get(event.broker_id)
    if registered is None or registered.epoch != event.broker_epoch:
        # Its next life is asked again.
        return nothing(None)
    changed: dict[str, list[PartitionImage]] = {}
    operations: list[Operation] = []
    losses = Losses()
    behind: list[str] = []
    """Only a replica that was not in sync has records."""
    for topic_id, index, epoch, end in event.ends:
        topic = image.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            continue
        partitions = changed.get(topic.name) or list(topic.partitions)
        before = partitions[index]
        told = LogEnd(event.broker_id, epoch, end)
        if not _matters(before, told):
            continue
        heard = _hearing(image, before, told)
        election = _election(image, topic, before, heard, told)
        if election is None:
            continue
        election = without_false_alarm(election, heard, emptied_of(image))
        if election.leader == NO_LEADER and before.young and not heard.young and end > 0:
            behind.append(f"{topic.name}-{index}")
        losses.note(f"{topic.name}-{index}", before, election)
        after = next_state(image, heard, election)
        if election.leader == before.leader == NO_LEADER:
            # Nobody has anything to do.
            after = msgspec.structs.replace(after, leader_epoch=before.leader_epoch)
        partitions[index] = after
        changed[topic.name] = partitions
        operations.append(set_state(topic.name, index, after, before))
    topics = tuple(with_partitions(image.topics[name], partitions) for name, partitions in changed.items())
    delta = ImageDelta(topics=topics)
    warnings = losses.warnings()
    if behind:
        warnings += (
            f"broker {event.broker_id} has records and was not in sync, and the logs of replicas that were are gone: "
            "nobody leads before an unclean election (kafka-leader-election --election-type unclean): "
            f"{', '.join(behind[:NAMED_MAX])}",
        )
    return Decision(tuple(operations), delta, None, separable=True, warnings=warnings)


def _matters(before: PartitionImage, told: LogEnd) -> bool:
    """Whether it was asked for, or a member of the ISR has no log."""
    known = any(one.broker_id == told.broker_id for one in before.suspect)
    missing = told.end == MISSING_LOG
    if not known and not (missing and told.broker_id in before.isr):
        return False
    # With a leader it has one to copy from.
    return missing or before.leader == NO_LEADER


def _election(
    image: ClusterImage, topic: TopicImage, before: PartitionImage, after: PartitionImage, told: LogEnd
) -> Election | None:
    """None: it changes nothing."""
    if before.leader not in (NO_LEADER, told.broker_id):
        left = tuple(member for member in before.isr if member != told.broker_id)
        return Election(before.leader, left, after.suspect) if left != before.isr else None
    alive = frozenset(image.brokers) - image.leaving
    unclean = may_elect_uncleanly(image, topic)
    emptied = emptied_of(image) if before.leader == NO_LEADER else frozenset[int]()
    found = elect(after, alive, emptied=emptied, unclean=unclean)
    return found if found[:3] != (before.leader, before.isr, before.suspect) else None
