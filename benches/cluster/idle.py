"""What three idle brokers of a metadata quorum cost: `python -m benches.cluster.idle [SECONDS]` (Linux, with `ss`).

Prints for each broker memory, CPU, and the TCP payload that it sends to the other brokers. The first line is the
controller.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.quorum.scene import Scene, until

SETTLED_S = 15.0
"""After the last voter has joined."""
SENT = re.compile(r"pid=(\d+),.*?\bbytes_sent:(\d+)", re.DOTALL)


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
    """User and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(seconds: float) -> None:
    """Start the brokers and print a table."""
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        scene = Scene(Path(folder))
        try:
            scene.start()
            until(scene.all_vote)
            time.sleep(SETTLED_S)
            controller = scene.controller()
            pids = {broker.pid: broker_id for broker_id, broker in scene.brokers.items()}
            sent, cpu = sent_bytes(pids), {pid: cpu_s(pid) for pid in pids}
            began = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            sent_after = sent_bytes(pids)
            print(f"{'broker':>6} {'MiB':>6} {'CPU %':>6} {'sent B/s':>9}")
            for pid, broker_id in sorted(pids.items(), key=lambda item: item[1] != controller):
                share = (cpu_s(pid) - cpu[pid]) / took * 100
                rate = (sent_after[broker_id] - sent[broker_id]) / took
                print(f"{broker_id:>6} {resident_mib(pid):>6.1f} {share:>6.2f} {rate:>9.0f}")
            print(f"all brokers: {sum(sent_after.values()) - sum(sent.values()):.0f} B in {took:.0f} s")
        finally:
            for broker in scene.brokers.values():
                broker.kill()


if __name__ == "__main__":
    measure(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
