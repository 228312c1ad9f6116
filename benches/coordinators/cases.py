"""The cases of coordinators, and the bar of each figure."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from benches.compare import load
from benches.compare.case import CPU_GB, CPU_REQUEST, RATE, Bar, Case, Figures
from benches.compare.cases import DURABLE, KAFKA, OS, fresh, with_topic
from benches.compare.peers import kafka, pybroker
from tests.support.brokers import BrokerProcess

_MANY = {"max.connections.per.ip": "4000"}
_ALONE = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
PEERS = {
    KAFKA: lambda folder: kafka(folder, {**_MANY, **_ALONE}),
    OS: lambda folder: pybroker(folder, {**_MANY, "log.flush.mode": "os"}),
    DURABLE: lambda folder: pybroker(folder, _MANY),
}
"""As in `benches.compare.peers`, with a higher connection limit: 1,000 members connect from one address."""

MEMBERS: dict[str, object] = {"connections": 1000, "groups": 10}
PACE = "300ms"
"""Heartbeat interval of each member: ten times as frequent as the clients' default, to make the cost of a request
visible over the broker's idle load."""


def _beside_members(protocol: str) -> Callable[[BrokerProcess], Figures]:
    """Return a measurement of record latency, open loop: without members, and with 1,000 members at the clients'
    default heartbeat interval."""

    def measure(broker: BrokerProcess) -> Figures:
        groups, topic = fresh("members"), fresh("e2e")
        options: dict[str, object] = {"topic": topic, "rate": 1000, "duration": "10s"}
        try:
            load.run(broker, "e2e", **(options | {"duration": "3s"}))
            alone = load.run(broker, "e2e", **options)
            members = load.command(broker, "members", topic=groups, protocol=protocol, duration="40s", **MEMBERS)
            with subprocess.Popen(members, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                beside = load.run(broker, "e2e", **options)
                _, error = process.communicate(timeout=load.TIMEOUT_S)
                if process.returncode:
                    raise RuntimeError(error.decode().strip())
            figures: Figures = {"alone_p50_ms": alone["p50_ms"], "beside_p50_ms": beside["p50_ms"]}
            figures |= {"alone_p99_ms": alone["p99_ms"], "beside_p99_ms": beside["p99_ms"]}
            return figures | {"p99_ratio": beside["p99_ms"] / alone["p99_ms"]}
        finally:
            load.run(broker, "delete", topic=topic)
            load.run(broker, "delete", topic=groups)

    return measure


def _isolation(broker: BrokerProcess) -> Figures:
    """Measure the CPU per GB of reading transactions of 100 records of 1 KiB, every tenth aborted; isolation levels in
    turn."""
    topic = fresh("isolation")
    load.run(broker, "transactions", topic=topic, connections=8, batch=100, size=1024, megabytes=600, abort=10,
             duration="600s", limit="600s")  # fmt: skip
    try:
        cost = {0: 0.0, 1: 0.0}
        for isolation in (0, 1, 1, 0, 0, 1, 1, 0):
            read = load.run(broker, "fetch", topic=topic, isolation=isolation, megabytes=3000)
            cost[isolation] += read[CPU_GB] / 4
        return {"uncommitted_cpu_s_per_gb": cost[0], "committed_cpu_s_per_gb": cost[1], "ratio": cost[1] / cost[0]}
    finally:
        load.run(broker, "delete", topic=topic)


def _share(broker: BrokerProcess) -> Figures:
    topic = fresh("share")
    load.run(broker, "produce", topic=topic, batch=100, size=100, megabytes=300)
    try:
        return load.run(broker, "share", topic=topic, connections=10, megabytes=200)
    finally:
        load.run(broker, "delete", topic=topic)


def _living(protocol: str) -> Case:
    return Case(
        f"1,000 members, heartbeats and commits, {protocol}",
        (Bar(CPU_REQUEST, OS, KAFKA, 0.5), Bar(CPU_REQUEST, DURABLE, KAFKA, 0.5)),
        with_topic("members", protocol=protocol, interval=PACE, duration="15s", **MEMBERS),
        figures=(RATE, "heartbeat_p99_ms", "commit_p99_ms"),
    )


CASES = (
    *(Case(f"100 consumers join until the first fetch, {protocol}", (Bar("all_ms", DURABLE, KAFKA, 0.5),),
           with_topic("joins", connections=100, partitions=100, protocol=protocol), figures=("p50_ms", "broker_cpu_s"))
      for protocol in ("classic", "consumer")),
    *(_living(protocol) for protocol in ("classic", "consumer")),
    Case("records beside 1,000 members, classic", (Bar("p99_ratio", OS, "", 1.25), Bar("p99_ratio", DURABLE, "", 1.25)),
         _beside_members("classic"), figures=("alone_p50_ms", "beside_p50_ms", "alone_p99_ms", "beside_p99_ms")),
    Case("transactions of 100 records of 100 B, 8 producers",
         (Bar(RATE, OS, KAFKA, 1.5, True), Bar(RATE, DURABLE, KAFKA, 1, True)),
         with_topic("transactions", connections=8, batch=100, size=100, megabytes=100_000, duration="10s"),
         figures=(CPU_REQUEST, "p50_ms", "p99_ms", "retries")),
    Case("read_committed against read_uncommitted", (Bar("ratio", OS, "", 1.1), Bar("ratio", DURABLE, "", 1.1)),
         _isolation, figures=("uncommitted_cpu_s_per_gb", "committed_cpu_s_per_gb")),
    Case("a share group of 10 consumers, 100 B", (Bar(RATE, OS, KAFKA, 1, True), Bar(RATE, DURABLE, KAFKA, 1, True)),
         _share, figures=(CPU_REQUEST, "client_cpu_s_per_gb")),
)  # fmt: skip
