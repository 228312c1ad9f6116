"""Commits a large staged ingest: `python -m benches.ingest.attach [GIGABYTES] [PARTITIONS]`.

Two writers stage batches of 1 MB. The output has the seconds of staging and of the commit; a line of the broker's log
has the time of linking. The data directory is temporary.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping

import pybroker
from pybroker import native
from tests.ingest.client import Attempt, IngestClient, append_request

BATCH_BYTES = 1_000_000
ROWS = 1_000


def run(gigabytes: float, partitions: int, settings: Mapping[str, str] | None = None) -> dict[str, float]:
    """Run one load into a new broker; return GB staged, and seconds of staging, of the commit, and of its linking."""
    data = native.build_batch([(b"k", bytes(BATCH_BYTES // ROWS))] * ROWS, int(time.time() * 1000))
    batches = int(gigabytes * 1e9 / len(data))
    with pybroker.Broker(settings) as broker, IngestClient(broker.port) as client:
        topic_id = client.create("bulk", partitions)
        epoch = client.begin(topic_id, "bench").epoch
        attempts = [Attempt(writer) for writer in range(2)]
        started = time.monotonic()
        for number in range(batches):
            attempt, partition = attempts[number % 2], number // 2 % partitions
            part = partition, attempt.rows.get(partition, 0), data
            request = append_request(topic_id, "bench", epoch, attempt, [part])
            if number >= 4:
                assert client.receive().partitions[0].error_code == 0
            client.send(request)
            attempt.add(partition, data, ROWS)
        for _ in range(min(batches, 4)):
            assert client.receive().partitions[0].error_code == 0
        staged = time.monotonic()
        answer = client.commit(topic_id, "bench", epoch, attempts)
        committed = time.monotonic()
        assert answer.error_code == 0, answer
        assert sum(part.end_offset - part.base_offset for part in answer.partitions) == batches * ROWS
        attached = re.findall(r"ingest committed .* linking_ms=(\d+)", broker.log_tail())
        return {
            "staged_gb": batches * len(data) / 1e9,
            "staging_s": staged - started,
            "commit_s": committed - staged,
            "attach_s": int(attached[-1]) / 1e3,
        }


def main() -> None:
    """Run the load and print the result."""
    partitions = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    figures = run(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0, partitions)
    rate = figures["staged_gb"] / figures["staging_s"] * 1000
    print(f"{figures['staged_gb']:.2f} GB, {partitions} partitions, 2 writers")
    print(f"staging {figures['staging_s']:.2f} s ({rate:.0f} MB/s)")
    print(f"commit, including the flush of unflushed data: {figures['commit_s']:.3f} s")
    print(f"attach (part of the commit, from the broker's log): {figures['attach_s']:.3f} s")


if __name__ == "__main__":
    main()
