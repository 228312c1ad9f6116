"""The cases of single brokers, and the bar of each figure."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benches.compare import load
from benches.compare.case import CPU_GB, CPU_REQUEST, RATE, Bar, Case, Figures
from benches.compare.peers import PEERS, cpu_seconds, resident_mib, timed_start
from tests.support.brokers import BrokerProcess

_numbers = itertools.count(1)


def fresh(kind: str) -> str:
    """Return a topic name that no run has used."""
    return f"bench-{kind}-{time.time_ns() % 10**9}-{next(_numbers)}"


def with_topic(operation: str, **options: object) -> Callable[[BrokerProcess], Figures]:
    """Return a measurement of one operation of the load on a new topic."""

    def measure(broker: BrokerProcess) -> Figures:
        topic = fresh(operation)
        try:
            return load.run(broker, operation, topic=topic, **options)
        finally:
            load.run(broker, "delete", topic=topic)

    return measure


def _fetch(fetch_bytes: int, connections: int, megabytes: int) -> Callable[[BrokerProcess], Figures]:
    def measure(broker: BrokerProcess) -> Figures:
        topic = fresh("fetch")
        load.run(broker, "produce", topic=topic, batch=64, size=1024, megabytes=600)
        try:
            return load.run(
                broker, "fetch", topic=topic, fetch_bytes=fetch_bytes, connections=connections, megabytes=megabytes
            )
        finally:
            load.run(broker, "delete", topic=topic)

    return measure


def _spread(broker: BrokerProcess) -> Figures:
    """Measure the latency of acknowledgements of 1 KiB records over 1,000 partitions, and over 16 (`narrow`)."""
    wide, narrow = (
        with_topic("e2e", rate=1000, size=1024, partitions=partitions, duration="10s")(broker)
        for partitions in (1000, 16)
    )
    figures: Figures = {name: wide[name] for name in ("ack_p50_ms", "ack_p99_ms", CPU_REQUEST)}
    return figures | {
        "narrow_ack_p99_ms": narrow["ack_p99_ms"],
        "p99_ratio": wide["ack_p99_ms"] / narrow["ack_p99_ms"],
    }


def _metadata(broker: BrokerProcess) -> Figures:
    topics = {"topic": fresh("metadata"), "topics": 1000}
    load.run(broker, "topics", partitions=1, **topics)
    try:
        return load.run(broker, "metadata", rounds=1000)
    finally:
        load.run(broker, "delete", **topics)


def _start(peer: str, folder: Path) -> Figures:
    broker = PEERS[peer](folder)
    try:
        figures = {"start_ms": timed_start(broker)}
        time.sleep(5)
        used = cpu_seconds(broker.pid)
        time.sleep(5)
        figures["idle_cpu_percent"] = (cpu_seconds(broker.pid) - used) / 5 * 100
        figures["resident_mib"] = resident_mib(broker.pid)
        return figures
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _many_partitions(peer: str, folder: Path) -> Figures:
    """Measure 10 topics of 1,000 partitions: creation, restart after a clean stop, restart after kill -9."""
    broker = PEERS[peer](folder)
    topics = {"topic": "many", "topics": 10, "partitions": 1000}
    try:
        broker.start()
        figures = {"create_writable_ms": load.run(broker, "topics", **topics)["writable_ms"]}
        for figure, end in (("clean_restart_ms", broker.stop), ("kill_restart_ms", broker.kill)):
            end()
            figures[figure] = _restart(broker, topics)["first_ms"]
        figures["resident_mib"] = resident_mib(broker.pid)
        return figures
    finally:
        # Keep the folder until the end of the run: ext4 skips recently deleted inodes one by one when it creates a
        # file, which would slow down the next measurement.
        broker.kill()


def _restart(broker: BrokerProcess, topics: dict[str, object]) -> Figures:
    since = time.time_ns()
    broker.start()
    return load.run(broker, "firstwrite", since=since, **topics)


def _crash(peer: str, folder: Path) -> Figures:
    broker = PEERS[peer](folder)
    topics: dict[str, object] = {"topic": "crash", "partitions": 16}
    try:
        broker.start()
        load.run(broker, "produce", batch=900, size=1024, megabytes=1000, **topics)
        broker.kill()
        return {"first_ms": _restart(broker, topics)["first_ms"]}
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


_ACTIVE: dict[str, object] = {"idle": 0, "connections": 2, "duration": "6s"}
_BURN = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: sum(range(1000))"


def _busy_python(broker: BrokerProcess) -> Figures:
    """Measure produce latency alone, with a busy control plane, and with another process that uses as much CPU."""
    topic, others = fresh("busy"), {"topic": fresh("others"), "topics": 500}
    load.run(broker, "topics", partitions=1, **others)
    figures: Figures = {}

    def take(prefix: str) -> None:
        for name, value in load.run(broker, "many", topic=topic, **_ACTIVE).items():
            if name in ("p50_ms", "p99_ms"):
                figures[prefix + name] = value

    try:
        take("alone_")
        for prefix, beside in (
            ("busy_", load.command(broker, "describe", duration="20s", **others)),
            ("burn_", [sys.executable, "-c", _BURN]),
        ):
            with subprocess.Popen(beside, stdout=subprocess.DEVNULL) as process:
                time.sleep(1)
                take(prefix)
                process.terminate()
        figures["busy_p50_ratio"] = figures["busy_p50_ms"] / figures["alone_p50_ms"]
        figures["busy_p99_ratio"] = figures["busy_p99_ms"] / figures["burn_p99_ms"]
        return figures
    finally:
        load.run(broker, "delete", topic=topic)
        load.run(broker, "delete", **others)


SMALL_FRAME = 270
"""Bytes of a Produce request with one record of 100 B."""
OS, DURABLE, KAFKA, KAFKA_FLUSH = "pybroker os", "pybroker", "kafka", "kafka flush"

CASES = (
    Case("start; idle", (Bar("start_ms", DURABLE, KAFKA, 0.1), Bar("resident_mib", DURABLE, KAFKA, 1 / 8)),
         live=_start, peers=(KAFKA, DURABLE), figures=("idle_cpu_percent",)),
    Case("1 × 100 B a request, 4 connections",
         (Bar(CPU_REQUEST, OS, KAFKA, 1 / 3), Bar(CPU_REQUEST, OS, "", 6), Bar(CPU_REQUEST, DURABLE, OS, 2),
          Bar(RATE, OS, KAFKA, 2, True), Bar(RATE, DURABLE, KAFKA, 4, True)),
         with_topic("produce", batch=1, size=100, megabytes=6),
         limit=lambda folder: load.journal_limit(4, 5, folder, SMALL_FRAME), peers=(KAFKA, OS, DURABLE, KAFKA_FLUSH)),
    Case("200 idle + 50 active connections, 1 × 100 B",
         (Bar(CPU_REQUEST, OS, KAFKA, 1 / 3), Bar(CPU_REQUEST, DURABLE, OS, 1.5), Bar(RATE, OS, KAFKA, 2, True),
          Bar(RATE, DURABLE, KAFKA, 2.5, True)),
         with_topic("many", connections=50, idle=200, duration="5s"),
         limit=lambda folder: load.journal_limit(50, 1, folder, SMALL_FRAME), figures=("p50_ms", "p99_ms")),
    Case("16 KB batches, 4 connections", (Bar(CPU_GB, OS, KAFKA, 0.5), Bar(RATE, DURABLE, KAFKA, 1.5, True)),
         with_topic("produce", batch=16, size=1024, megabytes=1000), peers=(KAFKA, OS, DURABLE, KAFKA_FLUSH)),
    Case("66 KB batches, 4 connections", (Bar(CPU_GB, OS, KAFKA, 0.5), Bar(RATE, DURABLE, KAFKA, 1.5, True)),
         with_topic("produce", batch=64, size=1024, megabytes=1500), peers=(KAFKA, OS, DURABLE, KAFKA_FLUSH)),
    Case("0.93 MB batches, 4 connections", (Bar(CPU_GB, OS, "limit", 1.25), Bar(RATE, DURABLE, KAFKA_FLUSH, 1.2, True)),
         with_topic("produce", batch=900, size=1024, megabytes=2000),
         limit=lambda folder: load.limit("produce", 4, 2000, folder), peers=(KAFKA, OS, DURABLE, KAFKA_FLUSH)),
    Case("fetch 1 MiB a partition, 4 connections", (Bar(CPU_GB, OS, "limit", 1.3),), _fetch(1 << 20, 4, 6000),
         limit=lambda folder: load.limit("fetch", 4, 6000, folder), figures=("mb_per_s",)),
    Case("fetch 64 KiB a partition, 4 connections",
         (Bar(CPU_GB, OS, "limit", 1.3), Bar(CPU_GB, OS, KAFKA, 0.5), Bar(CPU_REQUEST, OS, "", 25)),
         _fetch(1 << 16, 4, 3000),
         limit=lambda folder: load.limit("fetch", 4, 3000, folder, frame=66_600), figures=("mb_per_s",)),
    Case("end to end, 5,000/s, 16 partitions",
         (Bar("p99_ms", OS, KAFKA, 0.5), Bar("p50_ms", OS, KAFKA, 1), Bar("p99_ms", DURABLE, KAFKA, 0.5)),
         with_topic("e2e", rate=5000, duration="10s"), peers=(KAFKA, OS, DURABLE, KAFKA_FLUSH)),
    Case("records of 1 KiB, 1,000/s to 1,000 partitions",
         (Bar("ack_p99_ms", DURABLE, "", 5), Bar("p99_ratio", DURABLE, "", 2)), _spread,
         figures=("ack_p50_ms", "narrow_ack_p99_ms")),
    Case("Metadata of 1,000 topics", (Bar(CPU_REQUEST, OS, KAFKA, 0.2),), _metadata, figures=("p50_ms",)),
    Case("10 topics × 1,000 partitions",
         (Bar("create_writable_ms", DURABLE, KAFKA, 0.25), Bar("clean_restart_ms", DURABLE, KAFKA, 0.2),
          Bar("kill_restart_ms", DURABLE, KAFKA, 0.2)),
         live=_many_partitions, peers=(KAFKA, DURABLE), figures=("resident_mib",)),
    Case("kill -9 with 1 GB → first produce", (Bar("first_ms", DURABLE, KAFKA, 0.1),),
         live=_crash, peers=(KAFKA, DURABLE)),
    Case("Produce beside a busy control plane", (), _busy_python, peers=(DURABLE,),
         figures=("alone_p50_ms", "busy_p50_ms", "burn_p50_ms", "busy_p50_ratio", "alone_p99_ms", "busy_p99_ms",
                  "burn_p99_ms", "busy_p99_ratio")),
)  # fmt: skip
