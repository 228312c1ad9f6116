"""One chaos run: a cluster, clients, and faults from a seed until the time is over and enough events have happened.
Then all faults end, the clients finish, the brokers stop, and their files are compared with the responses to the
clients."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pybroker.client import NewTopic, blocking
from pybroker.native import Uuid
from pybroker.testing.cluster import Store
from tests.chaos.checker import check
from tests.chaos.churn import Churn
from tests.chaos.contended import PREFIX, Contended, Contender
from tests.chaos.group import Group, Member
from tests.chaos.history import History, Place
from tests.chaos.nemesis import MOVED, SESSION_MS, Nemesis, Step, plan
from tests.chaos.writers import LibrdkafkaWriter, OwnWriter, Writer
from tests.support.cluster import BrokerCluster, running_cluster
from tests.support.cluster_state import ClusterState, not_there, state_of
from tests.support.links import Links
from tests.support.log_files import replica_logs
from tests.support.partition_states import PartitionState, StateUnknownError
from tests.support.taking_records import TakenRecord, all_take_a_record

SETTINGS: Mapping[str, str] = {
    "replica.lag.time.max.ms": "3000",
    "log.cleaner.backoff.ms": "1000",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    # A broker may be started while its links are cut.
    "zookeeper.connection.timeout.ms": "60000",
    "offsets.topic.num.partitions": "4",
    "controlled.shutdown.max.retries": "1",
    "controlled.shutdown.retry.backoff.ms": "500",
}
STEADY, COMPACTED, CHURNED = "steady", "compacted", "churned"
PARTITIONS = {STEADY: 4, COMPACTED: 2, MOVED: 2}
BY_KEY = frozenset({COMPACTED, "__consumer_offsets"})
CONTENDERS = 3
HEALED_S = 180.0
"""Time limit for each of these: all replicas are in sync again, the clients have finished, everything is decided."""
HEALED_AGAIN_S = 10.0
"""Time limit for every topic to accept a record, counted from the time when all replicas are in sync."""
BEFORE, BEHIND = 5, 50
"""Number of log lines before and after a complaint that are shown."""
OVERTIME = 6.0
"""How many times its planned duration a run may last until it has enough events."""

Faults = Mapping[str, int]
KILLS: Faults = {
    "kill": 3,
    "kill the controller": 2,
    "kill the leader of most": 2,
    "kill and start at once": 2,
    "kill while it starts": 1,
    "stop": 2,
    "kill two": 1,
    "kill all": 1,
}
CUTS: Faults = {
    "pause past the session": 2,
    "pause the controller": 1,
    "pause the leader of most": 2,
    "pause shortly": 2,
    "cut off from ZooKeeper": 2,
    "cut off from ZooKeeper's answers": 1,
    "cut a link": 2,
    "cut a link one way": 2,
    "cut off from brokers": 1,
    "isolate": 2,
    "isolate the controller": 1,
    "kill ZooKeeper": 1,
    "pause ZooKeeper": 1,
    "fill a disk": 1,
    "refuse in its name": 1,
    "move replicas": 2,
    "move and kill": 2,
    "elect preferred leaders": 1,
}


@dataclass
class Verdict:
    """The result of a run."""

    seed: int
    steps: list[Step] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {len(self.steps)} steps, {dict(self.counts)}"]
        return "\n".join([*lines, *(f"- {one}" for one in self.anomalies), *(str(step) for step in self.steps)])


@dataclass(frozen=True)
class Least:
    """Minimum counts of events; with fewer, a run proves nothing."""

    acknowledged: int = 1_000
    elections: int = 10
    isr_changes: int = 20
    incarnations: int = 4
    commits: int = 10

    def missing(self, counts: Counter[str]) -> list[str]:
        """Events that have not happened often enough yet."""
        wanted = {
            "acknowledged": self.acknowledged,
            "elections": self.elections,
            "ISR changes": self.isr_changes,
            "incarnations": self.incarnations,
            "commits": self.commits,
        }
        return [f"{counts[name]} of {least} {name}" for name, least in wanted.items() if counts[name] < least]


def run(
    folder: Path,
    seed: int,
    seconds: float,
    faults: Faults | None = None,
    least: Least | None = None,
    *,
    store: Store = "zookeeper",
    brokers: int = 3,
) -> Verdict:
    """Run once; the verdict lists the faults."""
    least, faults = least or Least(), faults or {**KILLS, **CUTS}
    if store == "quorum":
        faults = {name: often for name, often in faults.items() if "ZooKeeper" not in name}
    history, verdict = History(), Verdict(seed)
    contended = Contended()
    with _cluster(folder, store, brokers) as (cluster, links), state_of(cluster, patience_s=0) as state:
        nemesis = Nemesis(cluster, links, state, history)
        with _clients(cluster, state, history, seed) as finish:
            with _contenders(cluster, contended, seed) as contenders:
                _trouble(nemesis, state, verdict, history, (seed, seconds, faults, least))
                nemesis.heal()
            verdict.anomalies += _end(contenders)
            verdict.anomalies += _heal(cluster, state)
            verdict.anomalies += _take_a_record(cluster, history)
            verdict.anomalies += finish()
        _count(state, history.counts)
        assigned = {Place(one.topic_id, index): one.replicas for (_, index), one in _partitions(state).items()}
        for broker in cluster.brokers.values():
            broker.stop()
        disks = {number: replica_logs(broker.data_dir) for number, broker in cluster.brokers.items()}
        verdict.anomalies += check(history, disks, assigned, BY_KEY)
        verdict.anomalies += _complaints(cluster)
    unexplained, history.counts["undecided names"] = contended.check()
    verdict.anomalies += unexplained
    history.counts["contended requests"] = contended.answered
    verdict.counts = history.counts
    verdict.anomalies += [f"too little happened: {one}" for one in least.missing(history.counts)]
    return verdict


@contextmanager
def _cluster(folder: Path, store: Store, brokers: int) -> Iterator[tuple[BrokerCluster, Links]]:
    links = Links()
    with closing(links), running_cluster(folder, brokers, SETTINGS, links, store=store) as cluster:
        yield cluster, links


@contextmanager
def _contenders(cluster: BrokerCluster, contended: Contended, seed: int) -> Iterator[list[Contender]]:
    """Run clients that compete for topics of the same names. They send no more requests after the block."""
    ports = {number: broker.port for number, broker in cluster.brokers.items()}
    contenders = [Contender(number, ports, contended, seed + number) for number in range(CONTENDERS)]
    for contender in contenders:
        contender.start()
    try:
        yield contenders
    finally:
        for contender in contenders:
            contender.enough.set()


def _trouble(
    nemesis: Nemesis,
    state: ClusterState,
    verdict: Verdict,
    history: History,
    wanted: tuple[int, float, Faults, Least],
) -> None:
    seed, seconds, faults, least = wanted
    started = time.monotonic()
    for step in plan(seed, nemesis.brokers, faults):
        passed = time.monotonic() - started
        if passed > seconds:
            _count(state, history.counts)
            if not least.missing(history.counts) or passed > seconds * OVERTIME:
                return
        verdict.steps.append(step)
        nemesis.do(step)
        if step.settles:
            _until(lambda: not _out_of_sync(state), min(HEALED_S, 4 * seconds))


@contextmanager
def _clients(
    cluster: BrokerCluster, state: ClusterState, history: History, seed: int
) -> Iterator[Callable[[], list[str]]]:
    """Run clients. The yielded function lets them finish and returns their failures."""
    _create(cluster)
    made = _partitions(state)
    history.topics |= {name: made[name, 0].topic_id for name in PARTITIONS}
    servers = cluster.bootstrap
    writers: list[Writer] = [
        LibrdkafkaWriter("rd", servers, STEADY, PARTITIONS[STEADY], history),
        OwnWriter("own", servers, STEADY, PARTITIONS[STEADY], history),
        LibrdkafkaWriter("mv", servers, MOVED, PARTITIONS[MOVED], history),
        LibrdkafkaWriter("keys", servers, COMPACTED, PARTITIONS[COMPACTED], history, keyed=True),
    ]
    group = Group("group", servers, STEADY, history)
    members = [Member(group, f"member-{number}", seed + number) for number in range(2)]
    churn = Churn(CHURNED, {number: one.port for number, one in cluster.brokers.items()}, history, seed)
    threads: list[Writer | Member | Churn] = [*writers, *members, churn]
    for one in threads:
        one.start()
    for writer in writers:
        assert writer.begun.wait(HEALED_S), f"writer {writer.name} does not begin: {history.problems}"

    def finish() -> list[str]:
        found = _end([*writers, churn])
        ends = _ends(history)
        if not _until(lambda: all(group.reached.get(place, 0) >= end for place, end in ends.items()), HEALED_S):
            found.append(f"the group does not come to the end: {group.reached} of {ends}")
        lives = history.lives.keys() - history.deleted
        if not _until(lambda: lives <= _topics(state), HEALED_S):
            found.append(f"topics {sorted(lives - _topics(state))} were made or undeleted, and are not there")
        return found + _end(members) + _heal(cluster, state)

    try:
        yield finish
    finally:
        for one in threads:
            one.enough.set()


def _create(cluster: BrokerCluster) -> None:
    both = {"min.insync.replicas": "2"}
    small = {**both, "cleanup.policy": "compact", "segment.ms": "1500", "min.cleanable.dirty.ratio": "0.01"}
    with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.create_topics(
            [
                NewTopic(STEADY, PARTITIONS[STEADY], 3, config={**both, "segment.ms": "5000"}),
                NewTopic(COMPACTED, PARTITIONS[COMPACTED], 3, config=small),
                NewTopic(MOVED, PARTITIONS[MOVED], 2, config={"min.insync.replicas": "1"}),
            ]
        )


def _end(threads: Sequence[Writer | Member | Churn | Contender]) -> list[str]:
    give_up = time.monotonic() + HEALED_S
    for one in threads:
        one.enough.set()
    for one in threads:
        one.join(max(0.0, give_up - time.monotonic()))
    return [f"{one.name} does not come to an end in a healed cluster" for one in threads if one.is_alive()]


def _ends(history: History) -> dict[Place, int]:
    """Return the offset after the last acknowledged record of each partition of the group's topic."""
    places = [place for place in history.acknowledged if place.topic_id == history.topics[STEADY]]
    return {place: max(one.offset for one in history.acknowledged[place]) + 1 for place in places}


def _heal(cluster: BrokerCluster, state: ClusterState) -> list[str]:
    for broker in cluster.brokers.values():
        broker.await_answers()
    if _until(lambda: not _out_of_sync(state) and not _not_there(cluster, state), HEALED_S):
        return []
    return [f"replicas do not come back in sync: {_out_of_sync(state)}, not there: {_not_there(cluster, state)}"]


def _take_a_record(cluster: BrokerCluster, history: History) -> list[str]:
    """Write a record to every existing topic."""
    ports = {number: broker.port for number, broker in cluster.brokers.items()}
    numbers = itertools.count()

    def value(topic_id: Uuid) -> str:
        return f"{topic_id.hex}/healed/{next(numbers)}"

    def taken(record: TakenRecord) -> None:
        # A broker that was paused may still execute a deletion of a contended topic.
        if not record.topic.startswith(PREFIX):
            place = Place(record.topic_id.hex, record.partition)
            history.acknowledge(place, record.offset, record.value, record.sent_at)

    refused = all_take_a_record(ports, min(ports), HEALED_AGAIN_S, value, taken)
    return [f"{where} takes no record in a healed cluster: {why}" for where, why in refused.items()]


def _not_there(cluster: BrokerCluster, state: ClusterState) -> list[str]:
    try:
        return not_there(cluster, state)
    except StateUnknownError as problem:
        return [str(problem)]


def _out_of_sync(state: ClusterState) -> list[str]:
    try:
        return [
            f"{topic}-{partition}: leader {one.leader}, {sorted(one.isr)} of {sorted(one.replicas)}"
            for (topic, partition), one in state.partitions().items()
            if one.isr != one.replicas or one.leader not in one.isr or one.moves
        ]
    except StateUnknownError as problem:
        return [str(problem)]


def _partitions(state: ClusterState) -> dict[tuple[str, int], PartitionState]:
    """Return the partitions on all brokers. Wait until ZooKeeper responds, because it may have been down."""
    give_up = time.monotonic() + HEALED_S
    while True:
        try:
            return state.partitions()
        except StateUnknownError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def _topics(state: ClusterState) -> set[str]:
    """Return the ids of all existing topics."""
    try:
        return {one.topic_id for one in state.partitions().values()}
    except StateUnknownError:
        return set()


def _count(state: ClusterState, counts: Counter[str]) -> None:
    """Count partitions of the topics that are never deleted."""
    found = [one for (topic, _), one in _partitions(state).items() if topic in PARTITIONS]
    counts["elections"] = sum(one.leader_epoch for one in found)
    counts["ISR changes"] = sum(one.changes for one in found)


def _until(condition: Callable[[], bool], patience_s: float) -> bool:
    give_up = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


def _complaints(cluster: BrokerCluster) -> list[str]:
    """Return the lines of brokers' logs that only a fault of the product causes."""
    found = []
    for number, broker in cluster.brokers.items():
        lines = broker.console.read_text(errors="replace").splitlines()
        for at, line in enumerate(lines):
            if "Traceback" in line or "panicked" in line or "bug in pybroker" in line:
                # Keep only the outcome of a long run.
                about = lines[max(0, at - BEFORE) : at + BEHIND]
                found.append("\n  ".join([f"broker {number} wrote:", *about]))
    return found

