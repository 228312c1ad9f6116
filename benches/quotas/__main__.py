"""`python -m benches.quotas [--rounds N] [--seconds N]`, on one broker with `log.flush.mode=os`:

checking    CPU of data threads for a request of one record of 100 bytes (acks=1), without quotas and with byte and
            time quotas that are never reached
neighbours  p99 of a producer of 50 records per second, open loop: alone, beside four greedy clients with a byte quota,
            and beside four with a time quota; and while these clients load another broker on the same machine, which
            shows the machine's share
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median

from benches.compare import load
from benches.compare.peers import PEERS
from benches.rounds import MEGABYTES, compared, data_threads_ran, verdict
from pybroker import native
from pybroker.client import NewTopic, QuotaEntity, blocking
from pybroker.protocol import messages as m
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

COST_MAX = 1.02
P99_MAX = 1.5
PERIOD_S = 0.02
GREEDY = 4
GREEDY_BYTES = 100_000
BYTES_A_SECOND = 2e6
PERCENT = 5.0
CHECKS = 4
"""Pairs of runs per round: two equal runs differ by 5 percent."""
HIGH = {"producer_byte_rate": 1e15, "consumer_byte_rate": 1e15, "request_percentage": 1e9}
PRODUCE = 9


def quotas(broker: BrokerProcess, client_id: str, **values: float | None) -> None:
    """Set quotas of a client id; "" sets the default of all."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id=client_id): values}).all()


def checking(broker: BrokerProcess, rounds: int) -> str:
    """Measure the cost of a request with and without quotas."""

    def measured() -> float:
        before = data_threads_ran(broker.pid)
        requests = load.run(broker, "produce", topic="cost", acks=1, megabytes=MEGABYTES)["requests"]
        return (data_threads_ran(broker.pid) - before) / 1000 / float(requests)

    def without() -> float:
        quotas(broker, "", **dict.fromkeys(HIGH))
        return measured()

    def with_them() -> float:
        quotas(broker, "", **HIGH)
        return measured()

    without()
    one, other, ratio = compared(without, with_them, rounds * CHECKS)
    quotas(broker, "", **dict.fromkeys(HIGH))
    return f"checking: {one:.2f} µs a request without, {other:.2f} µs with quotas: {verdict(ratio, COST_MAX)}"


def produced(topic: str, size: int) -> m.ProduceRequest:
    """Return a Produce of one record of `size` bytes to partition 0."""
    records = native.build_batch([(None, bytes(size))], int(time.time() * 1000))
    part = m.ProduceRequest_PartitionProduceData(index=0, records=records)
    data = m.ProduceRequest_TopicProduceData(name=topic, partition_data=[part])
    return m.ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[data])


def latencies(broker: BrokerProcess, seconds: float) -> list[float]:
    """Return the sorted latencies in ms of small records, from each record's scheduled time."""
    request = produced("small", 100)
    found = []
    with WireClient(broker.port, client_id="neighbour", timeout_s=600) as wire:
        due = time.monotonic()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.monotonic()))
            wire.call(request, PRODUCE)
            found.append((time.monotonic() - due) * 1000)
            due += PERIOD_S
    return sorted(found)


def greed(port: int, client_id: str, stop: Event) -> None:
    """Send as fast as the broker reads."""
    request = produced("bulk", GREEDY_BYTES)
    with WireClient(port, client_id=client_id, timeout_s=600) as wire:
        while not stop.is_set():
            wire.call(request, PRODUCE)


def p99(found: list[float]) -> float:
    """Return the 99th percentile of sorted latencies."""
    return found[len(found) * 99 // 100]


def beside(broker: BrokerProcess, greedy: BrokerProcess, client_id: str, seconds: float) -> list[float]:
    """Return latencies of a broker while greedy clients load `greedy`, after they have used up their initial burst."""
    stop = multiprocessing.Event()
    clients = [multiprocessing.Process(target=greed, args=(greedy.port, client_id, stop)) for _ in range(GREEDY)]
    for each in clients:
        each.start()
    time.sleep(3.0)
    found = latencies(broker, seconds)
    stop.set()
    for each in clients:
        each.join(1.0)
        if each.is_alive():  # It waits for a response that the quota delays.
            each.kill()
            each.join()
    return found


def prepare(broker: BrokerProcess) -> None:
    """Create topics and the quotas of the greedy clients."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1) for name in ("small", "bulk")]).all()
    quotas(broker, "bytes", producer_byte_rate=BYTES_A_SECOND)
    quotas(broker, "time", request_percentage=PERCENT)
    latencies(broker, 1.0)


def neighbours(broker: BrokerProcess, other: BrokerProcess, rounds: int, seconds: float) -> Iterator[str]:
    """Measure the effect of greedy clients with a quota on others."""
    prepare(broker)
    prepare(other)
    for client_id in ("bytes", "time"):
        found = []
        for _ in range(rounds):
            alone = p99(latencies(broker, seconds))
            found.append(
                (
                    alone,
                    p99(beside(broker, broker, client_id, seconds)),
                    p99(beside(broker, other, client_id, seconds)),
                )
            )
        alone, here, there = (median(figures) for figures in zip(*found, strict=True))
        yield (
            f"neighbours: p99 {alone:.2f} ms alone, {here:.2f} beside {GREEDY} clients with a quota of {client_id}, "
            f"{there:.2f} while they load another broker"
        )
        yield f"    to alone: {verdict(median(here / alone for alone, here, _ in found), P99_MAX)}"
        yield f"    to the load elsewhere: {verdict(median(here / there for _, here, there in found), P99_MAX)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.quotas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="length of one section of the neighbours, in seconds"
    )
    given = parser.parse_args()
    load.build_client()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        brokers = []
        for name in ("one", "other"):
            (Path(folder) / name).mkdir()
            broker = PEERS["pybroker os"](Path(folder) / name)
            broker.start()
            stack.callback(broker.end)
            brokers.append(broker)
        one, other = brokers
        print(checking(one, given.rounds), flush=True)
        for line in neighbours(one, other, given.rounds, given.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
