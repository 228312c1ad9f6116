"""The cost of open attempts of staged ingests: `python -m benches.ingest.attempts [ATTEMPTS…]`.

Stages one small batch for each attempt of one ingest, all in one partition, and prints the broker's resident memory and
open files. The commit lists all attempts. The data directory is temporary.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import pybroker
from pybroker import native
from tests.ingest.client import COMMITTED, Attempt, IngestClient

ROWS = 10


class Cost(NamedTuple):
    """Resources of one broker process."""

    resident_kb: int
    files: int


def cost(pid: int) -> Cost:
    """Return the current resources of the process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(line for line in status if line.startswith("VmRSS:"))
    return Cost(int(resident.split()[1]), len(list(Path(f"/proc/{pid}/fd").iterdir())))


def run(steps: list[int]) -> None:
    """Run one broker with one ingest and an increasing number of attempts; print a line for each step."""
    data = native.build_batch([(b"k", b"v" * 100)] * ROWS, int(time.time() * 1000))
    with pybroker.Broker() as broker, IngestClient(broker.port) as client:
        topic_id = client.create("t", 1)
        epoch = client.begin(topic_id, "bench").epoch
        attempts: list[Attempt] = []

        def stage() -> None:
            attempt = Attempt(len(attempts))
            answer = client.append_raw(topic_id, "bench", epoch, attempt, [(0, 0, data)])
            assert answer.error_code == 0, answer
            assert answer.partitions[0].error_code == 0, answer
            attempt.add(0, data, ROWS)
            attempts.append(attempt)

        stage()
        first = cost(broker.pid)
        print(f"{1:7} attempts: {first.resident_kb / 1024:7.1f} MiB, {first.files:6} files", flush=True)
        for wanted in steps:
            started = time.monotonic()
            while len(attempts) < wanted:
                stage()
            now = cost(broker.pid)
            each = (now.resident_kb - first.resident_kb) / (wanted - 1)
            took = time.monotonic() - started
            print(
                f"{wanted:7} attempts: {now.resident_kb / 1024:7.1f} MiB, {now.files:6} files, "
                f"{each:6.2f} KiB an attempt; staged in {took:.1f} s",
                flush=True,
            )
        started = time.monotonic()
        done = client.commit(topic_id, "bench", epoch, attempts)
        assert done.state == COMMITTED, done
        after = cost(broker.pid)
        took = time.monotonic() - started
        print(f"committed in {took:.1f} s: {after.resident_kb / 1024:.1f} MiB, {after.files} files")


def main() -> None:
    run(sorted(map(int, sys.argv[1:])) or [1_000, 5_000])


if __name__ == "__main__":
    main()
