"""What three idle brokers cost: `python -m benches.cluster.idle [SECONDS [zookeeper]]` (Linux, with `ss`).

Prints for each broker of a metadata quorum memory, CPU, how often its threads wake up, and the TCP payload that it
sends to the other brokers. The first line is the controller. With `zookeeper`, the same for three brokers on ZooKeeper,
measured after the first three, and the ratio of the sums. ZooKeeper's own process counts for CPU and wake-ups.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benches.compare.peers import resident_mib
from tests.quorum.scene import Scene, until

SETTLED_S = 20.0
"""After the last voter has joined."""
SENT = re.compile(r"pid=(\d+),.*?\bbytes_sent:(\d+)", re.DOTALL)
WAKEUPS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)


class Cost(NamedTuple):
    """What one process cost in a second."""

    mib: float
    cpu_percent: float
    wakeups: float
    sent: float


def sent_bytes(pids: dict[int, int]) -> dict[int, int]:
    """Bytes that each broker has sent over its open connections, by broker id. `pids`: broker ids by process."""
    report = subprocess.run(["ss", "-tinpOH", "state", "established"], capture_output=True, text=True, check=True)
    sent = dict.fromkeys(pids.values(), 0)
    for line in report.stdout.splitlines():
        found = SENT.search(line)
        if found is not None and int(found[1]) in pids:
            sent[pids[int(found[1])]] += int(found[2])
    return sent


def cpu_s(pid: int) -> float:
    """User and system time of all threads, exact to the nanosecond. Time in ticks is too coarse for an idle process."""
    return sum(int(stat.read_text().split()[0]) for stat in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def wakeups(pid: int) -> int:
    """How often the threads have waited."""
    found = (WAKEUPS.search(status.read_text()) for status in Path(f"/proc/{pid}/task").glob("*/status"))
    return sum(int(each[1]) for each in found if each is not None)


def costs(pids: dict[int, int], seconds: float) -> dict[int, Cost]:
    """Measure the processes, by broker id. `pids`: broker ids by process."""
    before = {pid: (cpu_s(pid), wakeups(pid)) for pid in pids}
    sent = sent_bytes(pids)
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    sent_after = sent_bytes(pids)
    return {
        broker_id: Cost(
            resident_mib(pid),
            (cpu_s(pid) - before[pid][0]) / took * 100,
            (wakeups(pid) - before[pid][1]) / took,
            (sent_after[broker_id] - sent[broker_id]) / took,
        )
        for pid, broker_id in pids.items()
    }


def of_quorum(seconds: float) -> tuple[int, dict[int, Cost]]:
    """Return the controller and the costs of the brokers of a metadata quorum."""
    with tempfile.TemporaryDirectory(prefix="idle-") as folder, Scene(Path(folder)) as scene:
        scene.start()
        until(scene.all_vote)
        time.sleep(SETTLED_S)
        controller = scene.controller()
        return controller, costs({broker.pid: broker_id for broker_id, broker in scene.brokers.items()}, seconds)


def of_zookeeper(seconds: float) -> tuple[int, dict[int, Cost]]:
    """Return the controller and the costs of the brokers on ZooKeeper; 0: ZooKeeper."""
    # It needs the other systems of the comparison.
    from benches.cluster.peers import DURABLE, PEERS

    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        cluster = PEERS[DURABLE](Path(folder))
        try:
            cluster.start()
            time.sleep(SETTLED_S)
            controller = cluster.controller()
            *brokers, server = cluster.pids
            return controller, costs({**dict(zip(brokers, cluster.brokers, strict=True)), server: 0}, seconds)
        finally:
            cluster.kill()


def show(controller: int, measured: dict[int, Cost]) -> Cost:
    """Print a table; return the sum of all processes, with the memory of the brokers only."""
    print(f"{'broker':>9} {'MiB':>6} {'CPU %':>6} {'wakes/s':>8} {'sent B/s':>9}")
    rows = sorted(measured.items(), key=lambda item: (item[0] == 0, item[0] != controller, item[0]))
    for broker_id, cost in rows:
        name = str(broker_id) if broker_id else "ZooKeeper"
        print(f"{name:>9} {cost.mib:>6.1f} {cost.cpu_percent:>6.3f} {cost.wakeups:>8.1f} {cost.sent:>9.0f}")
    total = Cost(
        sum(cost.mib for broker_id, cost in rows if broker_id),
        sum(cost.cpu_percent for _, cost in rows),
        sum(cost.wakeups for _, cost in rows),
        sum(cost.sent for _, cost in rows),
    )
    print(f"{'all':>9} {total.mib:>6.1f} {total.cpu_percent:>6.3f} {total.wakeups:>8.1f} {total.sent:>9.0f}")
    return total


def main() -> None:
    """Measure, and print the tables."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    quorum = show(*of_quorum(seconds))
    if sys.argv[2:] == ["zookeeper"]:
        print("on ZooKeeper:")
        zookeeper = show(*of_zookeeper(seconds))
        ratios = (f"{name} {a / b:.2f}" for name, a, b in zip(Cost._fields, quorum, zookeeper, strict=True) if b)
        print("quorum / ZooKeeper:", ", ".join(ratios))


if __name__ == "__main__":
    main()
