"""Compares the responses to clients with the records on the disks of all brokers after a clean stop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.chaos.history import Acknowledged, History, Place, Session
from tests.support.log_files import ReplicaLog

Disks = Mapping[int, Sequence[ReplicaLog]]
"""The replicas of each broker, by its id."""

SHOWN_MAX = 5
"""Anomalies of one kind in one place."""


Assigned = Mapping[Place, frozenset[int]]
"""The replicas of each partition, as the controller has written them."""


def check(history: History, disks: Disks, assigned: Assigned, compacted: frozenset[str]) -> list[str]:
    """Return a sentence for each fault; none for a good run. `compacted`: topics of which only the last value of each
    key has to remain."""
    replicas: dict[Place, dict[int, ReplicaLog]] = defaultdict(dict)
    found: list[str] = list(history.problems)
    for broker, logs in disks.items():
        for log in logs:
            place = Place(log.topic_id, log.partition)
            if broker in replicas[place]:
                found.append(f"broker {broker} has {log.topic}-{log.partition} ({log.topic_id}) twice")
            replicas[place][broker] = log
    for place, by_broker in sorted(replicas.items()):
        found += _within_one_log(by_broker)
        if next(iter(by_broker.values())).topic in compacted:
            found += _differ_by_key(place, by_broker) + _stale_keys(history, place, by_broker)
        else:
            found += _differ(place, by_broker) + _against_history(history, place, by_broker)
    found += _appended_too_early(history)
    found += _misplaced(history, replicas, assigned)
    found += _incarnations(history, disks)
    found += _consumed(history, replicas)
    return found


def _name(log: ReplicaLog) -> str:
    return f"{log.topic}-{log.partition}"


def _some(found: Sequence[str]) -> list[str]:
    more = len(found) - SHOWN_MAX
    return [*found[:SHOWN_MAX], *([f"… and {more} more of this kind"] if more > 0 else [])]


# --- files of one replica and of several ------------------------------------------------------------------------------


def _within_one_log(logs: Mapping[int, ReplicaLog]) -> list[str]:
    """Check that offsets and leader epochs ascend, and that a producer's batches have consecutive sequences."""
    found = []
    for broker, log in logs.items():
        offset, epoch = -1, -1
        sequences: dict[tuple[int, int], int] = {}
        for batch in log.batches:
            where = f"broker {broker}, {_name(log)} at offset {batch.base_offset}"
            if batch.base_offset <= offset:
                found.append(f"{where}: the offset before is {offset}")
            if batch.leader_epoch < epoch:
                found.append(f"{where}: leader epoch {batch.leader_epoch} after {epoch}")
            offset, epoch = batch.last_offset, max(epoch, batch.leader_epoch)
            if batch.producer_id >= 0:
                producer = batch.producer_id, batch.producer_epoch
                if batch.first_sequence <= sequences.get(producer, -1):
                    found.append(f"{where}: sequence {batch.first_sequence} of producer {producer} comes again")
                sequences[producer] = batch.first_sequence + batch.last_offset - batch.base_offset
    return _some(found)


def _differ(place: Place, logs: Mapping[int, ReplicaLog]) -> list[str]:
    """Compare the logs byte by byte, from the highest log start to the high watermark."""
    watermark = max(log.high_watermark for log in logs.values())
    start = max(log.start for log in logs.values())
    found = [
        f"broker {broker}, {_name(log)} ({place.topic_id}): ends at {log.end}, and {watermark} is the high watermark"
        for broker, log in logs.items()
        if log.end < watermark
    ]
    first, *others = sorted(logs)
    expected = logs[first].raw(start, watermark)
    for other in others:
        if logs[other].raw(start, watermark) != expected:
            found.append(
                f"{_name(logs[first])} ({place.topic_id}): brokers {first} and {other} differ below the high watermark "
                f"{watermark}, first at offset {_first_difference(logs[first], logs[other], start)}"
            )
    return found


def _first_difference(one: ReplicaLog, other: ReplicaLog, start: int) -> int:
    pairs = zip(
        (batch for batch in one.batches if batch.base_offset >= start),
        (batch for batch in other.batches if batch.base_offset >= start),
        strict=False,
    )
    return next((a.base_offset for a, b in pairs if a.raw != b.raw), min(one.end, other.end))


def _last_values(log: ReplicaLog, below: int) -> dict[bytes | None, bytes]:
    """Return the last value of each key. Leave out keys whose last value is None: each replica removes them when it
    compacts."""
    last = {record.key: record.value for record in log.records() if record.offset < below}
    return {key: value for key, value in last.items() if value is not None}


def _differ_by_key(place: Place, logs: Mapping[int, ReplicaLog]) -> list[str]:
    watermark = max(log.high_watermark for log in logs.values())
    first, *others = sorted(logs)
    expected = _last_values(logs[first], watermark)
    found = []
    for other in others:
        other_values = _last_values(logs[other], watermark)
        found += _some(
            [
                f"{_name(logs[first])} ({place.topic_id}): key {key!r} is {expected.get(key)!r} on broker {first}, "
                f"{other_values.get(key)!r} on broker {other}"
                for key in expected.keys() | other_values.keys()
                if expected.get(key) != other_values.get(key)
            ]
        )
    return found


def _stale_keys(history: History, place: Place, logs: Mapping[int, ReplicaLog]) -> list[str]:
    found = []
    for broker, log in logs.items():
        values = _last_values(log, log.end)
        for (where, key), number in history.keys.items():
            value = values.get(key.encode())
            have = -1 if value is None else int(value.rpartition(b"/")[2])
            if where == place and have < number:
                found.append(f"broker {broker}, {_name(log)}: key {key} is {value!r}; {number} was acknowledged")
    return _some(found)


# --- files and responses to producers ------------------------------------------------------------------------------


def _against_history(history: History, place: Place, logs: Mapping[int, ReplicaLog]) -> list[str]:
    found = []
    acknowledged = history.acknowledged.get(place, [])
    for broker, log in logs.items():
        where = f"broker {broker}, {_name(log)} ({place.topic_id})"
        values = [(one.offset, one.value.decode()) for one in log.records() if one.value is not None]
        if place.topic_id in history.lives or place.topic_id in history.topics.values():
            by_offset = dict(values)
            there = set(by_offset.values())
            lost = [
                one
                for one in acknowledged
                if (one.value not in there if one.offset < 0 else by_offset.get(one.offset) != one.value)
            ]
            found += _some(
                [
                    f"{where}: {one.value}, acknowledged at offset {one.offset}, is lost (there: "
                    f"{by_offset.get(one.offset)}; the log ends at {log.end}, high watermark {log.high_watermark})"
                    for one in lost
                ]
            )
            doubled = [value for value, count in Counter(value for _, value in values).items() if count > 1]
            found += _some([f"{where}: {value} is there more than once" for value in doubled])
        if place.topic_id in history.topics.values():
            found += _some([f"{where}: {line}" for line in _out_of_order(values)])
        if place.topic_id in history.lives:
            foreign = [value for _, value in values if not value.startswith(place.topic_id)]
            found += _some([f"{where}: {value} was written to another incarnation" for value in foreign])
    return found


def _out_of_order(values: Iterable[tuple[int, str]]) -> list[str]:
    found = []
    last: dict[str, int] = {}
    for offset, value in values:
        writer, _, number = value.rpartition("/")
        if int(number) < last.get(writer, -1):
            found.append(f"{value} at offset {offset} comes after {writer}/{last[writer]}")
        last[writer] = max(last.get(writer, -1), int(number))
    return found


def _appended_too_early(history: History) -> list[str]:
    """A record that was sent after the acknowledgement of another one has the higher offset: the appends to a partition
    are linearizable, with their offsets as the order."""
    found = []
    for place, acknowledged in sorted(history.acknowledged.items()):
        latest: Acknowledged | None = None
        wrong = []
        for record in sorted(acknowledged, key=lambda record: record.offset):
            if record.offset < 0:
                continue
            if latest is not None and record.answered_at < latest.sent_at:
                wrong.append(
                    f"partition {place.partition} of topic {place.topic_id}: {latest.value} at offset {latest.offset} "
                    f"was sent after {record.value} had been acknowledged at the higher offset {record.offset}"
                )
            if latest is None or record.sent_at > latest.sent_at:
                latest = record
        found += _some(wrong)
    return found


def _misplaced(
    history: History, replicas: Mapping[Place, Mapping[int, ReplicaLog]], assigned: Assigned
) -> list[str]:
    """Check that a partition is on the brokers to which it is assigned, and on no other. A partition with acknowledged
    records must be assigned, unless its topic was deleted."""
    wanted = {place for place in history.acknowledged if place.topic_id not in history.deleted}
    wanted |= {place for place, _ in history.keys}
    found = [
        f"partition {place.partition} of topic {place.topic_id} is not there, for which "
        f"{len(history.acknowledged.get(place, ()))} records were acknowledged"
        for place in sorted(wanted - assigned.keys())
    ]
    for place in sorted(assigned.keys() | replicas.keys()):
        have, should = replicas.get(place, {}).keys(), assigned.get(place, frozenset())
        where = f"partition {place.partition} of topic {place.topic_id}"
        found += [f"broker {broker} has no replica of {where}" for broker in sorted(should - have)]
        found += [f"broker {broker} has a replica of {where}, and should not" for broker in sorted(have - should)]
    return found


def _incarnations(history: History, disks: Disks) -> list[str]:
    """Check that no broker serves a deleted topic, and that each re-created name has at most one incarnation."""
    found = []
    for broker, logs in disks.items():
        ids: dict[str, set[str]] = defaultdict(set)
        for log in logs:
            if log.topic_id in history.deleted:
                found.append(f"broker {broker} still has {_name(log)} of {log.topic_id}, which was deleted")
            ids[log.topic].add(log.topic_id)
        for topic, several in ids.items():
            if len(several) > 1:
                found.append(f"broker {broker} has {len(several)} incarnations of {topic}: {sorted(several)}")
    return found


# --- files and deliveries to consumers ------------------------------------------------------------------------------


def _consumed(history: History, replicas: Mapping[Place, Mapping[int, ReplicaLog]]) -> list[str]:
    found = []
    logs = {place: next(iter(by_broker.values())) for place, by_broker in replicas.items()}
    values = {
        place: {one.offset: (one.value or b"").decode() for one in logs[place].records()}
        for place in {session.place for session in history.sessions}
        if place in logs
    }
    for session in history.sessions:
        there = values.get(session.place, {})
        where = f"consumer of partition {session.place.partition}"
        found += _some(
            [
                f"{where}: got {one.value} at offset {one.offset}, where {there.get(one.offset)} is"
                for one in session.delivered
                if there.get(one.offset) != one.value
            ]
        )
        found += _skipped(where, session)
    return _some(found) + _never_delivered(history, values)


def _skipped(where: str, session: Session) -> list[str]:
    found = []
    if session.delivered and session.delivered[0].offset < session.committed_before:
        first = session.delivered[0].offset
        found.append(f"{where}: begins at {first}; the commit of {session.committed_before} had been acknowledged")
    for before, after in zip(session.delivered, session.delivered[1:], strict=False):
        if after.offset != before.offset + 1:
            found.append(f"{where}: offset {after.offset} came after {before.offset}")
    return found


def _never_delivered(history: History, values: Mapping[Place, Mapping[int, str]]) -> list[str]:
    delivered: dict[Place, set[int]] = defaultdict(set)
    for session in history.sessions:
        delivered[session.place].update(one.offset for one in session.delivered)
    return _some(
        [
            f"no member of the group got offset {offset} of partition {place.partition}: {value}"
            for place, there in values.items()
            for offset, value in there.items()
            if offset not in delivered[place]
        ]
    )
