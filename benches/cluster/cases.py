"""The cases of clusters, and the bar of each figure."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean

from benches.cluster.interrupted import commits_gap, create_gap, hang, kill, produce_gap, stop
from benches.cluster.peers import DURABLE, KAFKA, KAFKA_39, OS, PEERS, SESSION_MS, ClusterPeer
from benches.compare import load
from benches.compare.case import CPU_GB, CPU_REQUEST, RATE, Bar, Case, Figures
from benches.compare.cases import fresh
from benches.compare.peers import resident_mib

_MANY: dict[str, object] = {"topic": "many", "topics": 10, "partitions": 1000, "replication": 3}
_LIMIT = "900s"
_START_LIMIT_S = 900.0
"""Longest wait for a start: after a kill -9, Apache Kafka 3.9 needs more than 200 s to recover 10,000 logs."""
_OUTAGE_S = 20.0
"""How long a broker stays down, for clusters that reserve a deleted topic's name until the broker is back."""


def _produce(**options: object) -> Callable[[ClusterPeer], Figures]:
    """Produce to leaders on all three brokers; their CPU is summed."""

    def measure(cluster: ClusterPeer) -> Figures:
        topic = fresh("cluster")
        try:
            return load.run(cluster, "produce", topic=topic, connections=6, partitions=18, replication=3, **options)
        finally:
            load.run(cluster, "delete", topic=topic)

    return measure


def _end_to_end(cluster: ClusterPeer) -> Figures:
    topic = fresh("cluster-e2e")
    try:
        return load.run(cluster, "e2e", topic=topic, rate=5000, duration="10s", partitions=18, replication=3)
    finally:
        load.run(cluster, "delete", topic=topic)


def _idle(peer: str, folder: Path) -> Figures:
    cluster = PEERS[peer](folder)
    try:
        cluster.start()
        time.sleep(10)
        return {"resident_mib": mean(resident_mib(broker.pid) for broker in cluster.brokers.values())}
    finally:
        _end(cluster, folder)


def _failover(peer: str, folder: Path) -> Figures:
    """Measure the gap without acknowledgements after the leader of a partition is killed, hangs or stops, and the gap
    without commits after a group's coordinator is killed."""
    cluster = PEERS[peer](folder)
    try:
        cluster.start()
        return {
            "leader_killed_ms": produce_gap(cluster, kill),
            "leader_hangs_ms": produce_gap(cluster, hang),
            "leader_stopped_ms": produce_gap(cluster, stop),
            "coordinator_killed_ms": commits_gap(cluster),
        }
    finally:
        _end(cluster, folder)


def _name_reused(peer: str, folder: Path) -> Figures:
    """Delete and re-create topics with a replica on a broker that the cluster knows to be down, with the same number of
    replicas. Apache Kafka on ZooKeeper waits for the broker, which returns after 20 s: one topic is enough to show
    that. It has as many replicas as brokers are running."""
    cluster = PEERS[peer](folder)
    waits = peer == KAFKA_39
    topics: dict[str, object] = {"topic": "reused", "topics": 1 if waits else 20, "partitions": 3}
    try:
        cluster.start()
        load.run(cluster, "topics", replication=3, **topics)
        cluster.brokers[3].kill()
        _until_missed(cluster)
        with ThreadPoolExecutor() as aside:
            replication = 2 if waits else 3
            reused = aside.submit(load.run, cluster, "reuse", replication=replication, limit=_LIMIT, **topics)
            if waits:
                time.sleep(_OUTAGE_S)
                # Launch in this thread: the broker ends with the thread that started it.
                cluster.brokers[3].launch()
            figures = reused.result()
        return {"name_usable_p50_ms": figures["created_p50_ms"], "name_usable_p99_ms": figures["created_p99_ms"],
                "written_p99_ms": figures["written_p99_ms"]}  # fmt: skip
    finally:
        _end(cluster, folder)


def _until_missed(cluster: ClusterPeer) -> None:
    """Wait until no broker lists broker 3 as alive."""
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up:
        with cluster.admin() as admin:
            if all(node.id != 3 for node in admin.describe_cluster().nodes):
                return
        time.sleep(0.05)
    raise RuntimeError(f"{cluster.name}: a killed broker is still listed")


def _many_partitions(peer: str, folder: Path) -> Figures:
    """Measure 10 topics of 1,000 partitions with three replicas each."""
    cluster = PEERS[peer](folder)
    for broker in cluster.brokers.values():
        broker.start_limit_s = _START_LIMIT_S
    try:
        cluster.start()
        made = load.run(cluster, "topics", limit=_LIMIT, **_MANY)
        figures: Figures = {"create_writable_ms": made["writable_ms"]}
        load.run(cluster, "insync", limit=_LIMIT, **_MANY)
        figures["resident_mib"] = mean(resident_mib(broker.pid) for broker in cluster.brokers.values())
        for figure, end in (("controller_killed_ms", kill), ("controller_stopped_ms", stop)):
            figures[figure] = create_gap(cluster, end)
            load.run(cluster, "insync", limit=_LIMIT, **_MANY)
        # Subtract the session timeout, before which the death cannot be detected; a detection before it counts from the
        # kill.
        whole = figures["controller_killed_ms"]
        figures["controller_known_ms"] = whole - SESSION_MS if whole > SESSION_MS else whole
        since = time.time_ns()
        broker = cluster.brokers[2]
        broker.stop()
        broker.start()
        figures["back_in_sync_ms"] = load.run(cluster, "insync", since=since, limit=_LIMIT, **_MANY)["in_sync_ms"]
        figures |= _all_killed(cluster)
        return figures
    finally:
        cluster.kill()


def _all_killed(cluster: ClusterPeer) -> Figures:
    cluster.kill_brokers()
    since = time.time_ns()
    with ThreadPoolExecutor() as aside:
        writing = aside.submit(load.run, cluster, "firstwrite", since=since, limit=_LIMIT, **_MANY)
        # Start in this thread: brokers end with the thread that started them.
        cluster.start()
        took = writing.result()
    return {"all_killed_first_ms": took["first_ms"], "all_killed_all_ms": took["all_ms"]}


def _end(cluster: ClusterPeer, folder: Path) -> None:
    cluster.kill()
    shutil.rmtree(folder, ignore_errors=True)


CASES = (
    Case("idle", (Bar("resident_mib", DURABLE, KAFKA, 1 / 6),), live=_idle, peers=(KAFKA, DURABLE)),
    Case("RF 3, 1 × 100 B a request",
         (Bar(CPU_REQUEST, OS, KAFKA, 1 / 3), Bar(RATE, OS, KAFKA, 2, True)),
         _produce(batch=1, size=100, megabytes=4)),
    Case("RF 3, 16 KB batches", (Bar(CPU_GB, OS, KAFKA, 0.5), Bar(CPU_GB, DURABLE, KAFKA, 1)),
         _produce(batch=16, size=1024, megabytes=500), figures=(RATE,)),
    Case("RF 3, 66 KB batches", (Bar(CPU_GB, OS, KAFKA, 0.5), Bar(CPU_GB, DURABLE, KAFKA, 1)),
         _produce(batch=64, size=1024, megabytes=800), figures=(RATE,)),
    Case("RF 3, 0.93 MB batches", (Bar(CPU_GB, OS, KAFKA, 0.5), Bar(CPU_GB, DURABLE, KAFKA, 1)),
         _produce(batch=900, size=1024, megabytes=1000), figures=(RATE,)),
    Case("RF 3, end to end, 5,000/s", (Bar("p99_ms", OS, KAFKA, 0.5),), _end_to_end, figures=("p50_ms",)),
    Case("fail-over",
         (Bar("leader_killed_ms", DURABLE, "", 1_500), Bar("leader_hangs_ms", DURABLE, "", 6_500),
          Bar("leader_stopped_ms", DURABLE, "", 300), Bar("coordinator_killed_ms", DURABLE, "", 2_000)),
         live=_failover, peers=(KAFKA, KAFKA_39, DURABLE)),
    Case("a broker down, a topic deleted and made again", (Bar("name_usable_p99_ms", DURABLE, "", 50),),
         live=_name_reused, peers=(KAFKA, KAFKA_39, DURABLE), figures=("name_usable_p50_ms", "written_p99_ms")),
    Case("10 topics × 1,000 partitions, RF 3",
         (Bar("all_killed_first_ms", DURABLE, KAFKA, 0.25), Bar("all_killed_first_ms", DURABLE, KAFKA_39, 0.25),
          Bar("controller_known_ms", DURABLE, KAFKA_39, 1 / 3), Bar("controller_stopped_ms", DURABLE, KAFKA, 1 / 3),
          Bar("back_in_sync_ms", DURABLE, KAFKA, 0.25)),
         live=_many_partitions, peers=(KAFKA, KAFKA_39, DURABLE),
         figures=("controller_killed_ms", "all_killed_all_ms", "create_writable_ms", "resident_mib")),
)  # fmt: skip
