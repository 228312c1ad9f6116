"""One broker with its metadata in SQLite against one in a metadata log with one voter (rule of decision 23):
`python -m benches.cluster.alone [ROUNDS [IDLE_SECONDS [TOPICS]]]` (Linux).

In each round both brokers run in turn. Prints the medians of: milliseconds from the launch to the first response to
Metadata, of a new and of a stopped broker; memory after an idle time; and milliseconds of one CreateTopics request.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benches.cluster.idle import cpu_s
from benches.compare.peers import resident_mib
from pybroker.client import NewTopic, blocking
from pybroker.testing.child_processes import free_port
from tests.support.brokers import PybrokerProcess

KINDS = ("embedded", "quorum")
Figures = dict[str, list[float]]


def broker_of(kind: str, folder: Path) -> PybrokerProcess:
    """A broker that is not started yet."""
    broker = PybrokerProcess(folder)
    if kind == "quorum":
        between = free_port()
        broker.settings |= {
            "metadata.store": "quorum",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},BETWEEN://127.0.0.1:{between}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT",
            "inter.broker.listener.name": "BETWEEN",
        }
    return broker


def started_ms(broker: PybrokerProcess) -> float:
    """Start a broker; return the time to its first response."""
    began = time.perf_counter()
    broker.start()
    return (time.perf_counter() - began) * 1000


def run(kind: str, folder: Path, idle_s: float, topics: int, figures: Figures) -> None:
    """Run one broker."""
    broker = broker_of(kind, folder)
    try:
        figures.setdefault("first start ms", []).append(started_ms(broker))
        broker.stop()
        figures.setdefault("start ms", []).append(started_ms(broker))
        cpu, began = cpu_s(broker.pid), time.monotonic()
        time.sleep(idle_s)
        figures.setdefault("idle MiB", []).append(resident_mib(broker.pid))
        share = (cpu_s(broker.pid) - cpu) / (time.monotonic() - began) * 100
        figures.setdefault("idle CPU %", []).append(share)
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            taken = []
            for number in range(topics):
                began = time.perf_counter()
                admin.create_topics([NewTopic(f"topic-{number}", 1, 1)]).all()
                taken.append((time.perf_counter() - began) * 1000)
        figures.setdefault("CreateTopics ms, median", []).append(median(taken))
        figures.setdefault("CreateTopics ms, p99", []).append(sorted(taken)[int(len(taken) * 0.99)])
        broker.stop()
    finally:
        broker.kill()


def measure(rounds: int, idle_s: float, topics: int) -> None:
    """Run the rounds and print a table."""
    figures: dict[str, Figures] = {kind: {} for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="alone-") as temporary:
        for number in range(rounds):
            for kind in KINDS if number % 2 else reversed(KINDS):
                run(kind, Path(temporary) / f"{kind}-{number}", idle_s, topics, figures[kind])
    print(f"{'':<24}" + "".join(f"{kind:>12}" for kind in KINDS))
    for name in figures[KINDS[0]]:
        print(f"{name:<24}" + "".join(f"{median(figures[kind][name]):>12.2f}" for kind in KINDS))


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    rounds, idle, topics = (*given, *(7, 10, 200)[len(given) :])
    measure(rounds, idle, topics)
