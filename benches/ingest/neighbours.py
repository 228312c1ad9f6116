"""The effect of a bulk load on another producer: `python -m benches.ingest.neighbours [SECONDS] [SETTING=VALUE …]`.

One producer sends records of 100 bytes with acks=all, 50 a second, open loop: alone, while two writers stage without
pause, and alone again. Prints p50, p99 and the rate of staging. The sections follow each other directly, so the machine
is in the same state.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Mapping
from multiprocessing.synchronize import Event

import pybroker
from pybroker import native
from pybroker.native import Uuid
from tests.ingest.client import Attempt, IngestClient, produce_request

PERIOD_S = 0.02
BATCH_BYTES = 1_000_000


def produce(client: IngestClient, topic_id: Uuid, seconds: float) -> list[float]:
    """Return latencies in ms, from each record's scheduled time."""
    request = produce_request(topic_id, native.build_batch([(b"k", bytes(100))], int(time.time() * 1000)))
    latencies = []
    due = time.monotonic()
    end = due + seconds
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        answer = client.call(request, 13)
        assert answer.responses[0].partition_responses[0].error_code == 0
        latencies.append((time.monotonic() - due) * 1000)
        due += PERIOD_S
    return sorted(latencies)


def load(port: int, ingest: tuple[str, int], writer: int, stop: Event, staged: multiprocessing.Queue[int]) -> None:
    """Stage without pause, except for the broker's throttle times."""
    data = native.build_batch([(b"k", bytes(BATCH_BYTES // 1000))] * 1000, int(time.time() * 1000))
    attempt = Attempt(writer)
    topic_id, epoch = ingest
    with IngestClient(port) as client:
        while not stop.is_set():
            rows = attempt.rows.get(writer, 0)
            answer = client.append_raw(Uuid.parse(topic_id), "bulk", epoch, attempt, [(writer, rows, data)])
            if answer.error_code == 0 and answer.partitions[0].error_code == 0:
                attempt.add(writer, data, 1000)
            time.sleep(answer.throttle_time_ms / 1000)
    staged.put(attempt.bytes.get(writer, 0))


def percentile(latencies: list[float], percent: int) -> float:
    """Return a percentile of sorted latencies."""
    return latencies[len(latencies) * percent // 100]


def run(seconds: float, settings: Mapping[str, str] | None = None) -> dict[str, float]:
    """Run one comparison in a new broker; return p50 and p99 of the three sections in ms, and MB/s of staging."""
    with pybroker.Broker(settings) as broker, IngestClient(broker.port) as client:
        small, bulk = client.create("small", 1), client.create("bulk", 2)
        produce(client, small, 1.0)
        sections = {"alone": produce(client, small, seconds)}
        epoch = client.begin(bulk, "bulk").epoch
        stop = multiprocessing.Event()
        staged: multiprocessing.Queue[int] = multiprocessing.Queue()
        writers = [
            multiprocessing.Process(target=load, args=(broker.port, (str(bulk), epoch), writer, stop, staged))
            for writer in range(2)
        ]
        for writer in writers:
            writer.start()
        time.sleep(1.0)
        started = time.monotonic()
        sections["beside"] = produce(client, small, seconds)
        stop.set()
        total = sum(staged.get() for _ in writers)
        rate = total / 1e6 / (time.monotonic() - started + 1.0)
        for process in writers:
            process.join()
        sections["again"] = produce(client, small, seconds)
    figures = {f"{name}_p{p}_ms": percentile(section, p) for name, section in sections.items() for p in (50, 99)}
    return {**figures, "staging_mb_per_s": rate}


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[2:])
    figures = run(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, given)
    for section, name in (("alone", "alone"), ("beside", "beside a bulk load"), ("again", "alone again")):
        print(f"{name}: p50 {figures[section + '_p50_ms']:.1f} ms, p99 {figures[section + '_p99_ms']:.1f} ms")
    print(f"staged {figures['staging_mb_per_s']:.0f} MB/s")


if __name__ == "__main__":
    main()
