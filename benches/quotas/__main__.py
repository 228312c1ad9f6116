"""`python -m benches.quotas [--rounds N] [--seconds N]`, on one broker with `log.flush.mode=os`:

    checking    CPU of a request of one record of 100 bytes (acks=1), without a quota and with quotas that nobody
                reaches, of bytes and of time
    neighbours  p99 of a producer of 50 records a second, open loop: alone, beside four greedy clients with a quota of
                bytes, and beside four with a quota of time
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from benches.compare import load
from benches.compare.peers import PEERS
from benches.rounds import CPU, MEGABYTES, compared, verdict
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
HIGH = {"producer_byte_rate": 1e15, "consumer_byte_rate": 1e15, "request_percentage": 1e9}
PRODUCE = 9


def quotas(broker: BrokerProcess, client_id: str, **values: float | None) -> None:
    """Sets those of a client id; "" is the default of all."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id=client_id): values}).all()


def checking(broker: BrokerProcess, rounds: int) -> str:
    """What a request costs with and without quotas."""

    def measured() -> float:
        return float(load.run(broker, "produce", topic="cost", acks=1, megabytes=MEGABYTES)[CPU])

    def without() -> float:
        quotas(broker, "", **dict.fromkeys(HIGH))
        return measured()

    def with_them() -> float:
        quotas(broker, "", **HIGH)
        return measured()

    without()
    one, other, ratio = compared(without, with_them, rounds)
    quotas(broker, "", **dict.fromkeys(HIGH))
    return f"checking: {one:.2f} µs a request without, {other:.2f} µs with quotas: {verdict(ratio, COST_MAX)}"


def produced(topic: str, size: int) -> m.ProduceRequest:
    """One record of so many bytes to partition 0."""
    records = native.build_batch([(None, bytes(size))], int(time.time() * 1000))
    part = m.ProduceRequest_PartitionProduceData(index=0, records=records)
    data = m.ProduceRequest_TopicProduceData(name=topic, partition_data=[part])
    return m.ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[data])


def latencies(broker: BrokerProcess, seconds: float) -> list[float]:
    """Milliseconds of each small record, from the moment at which it was due; sorted."""
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
    """Sends as fast as it is read."""
    request = produced("bulk", GREEDY_BYTES)
    with WireClient(port, client_id=client_id, timeout_s=600) as wire:
        while not stop.is_set():
            wire.call(request, PRODUCE)


def p99(found: list[float]) -> float:
    """Of sorted figures."""
    return found[len(found) * 99 // 100]


def beside(broker: BrokerProcess, client_id: str, seconds: float) -> list[float]:
    """Latencies while greedy clients run, once they have used up what came at once."""
    stop = multiprocessing.Event()
    clients = [multiprocessing.Process(target=greed, args=(broker.port, client_id, stop)) for _ in range(GREEDY)]
    for each in clients:
        each.start()
    time.sleep(3.0)
    found = latencies(broker, seconds)
    stop.set()
    for each in clients:
        each.join(1.0)
        if each.is_alive():  # it waits for an answer that comes when its quota lets it be read
            each.kill()
            each.join()
    return found


def neighbours(broker: BrokerProcess, rounds: int, seconds: float) -> list[str]:
    """What others feel of greedy clients that have a quota."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1) for name in ("small", "bulk")]).all()
    quotas(broker, "bytes", producer_byte_rate=BYTES_A_SECOND)
    quotas(broker, "time", request_percentage=PERCENT)
    latencies(broker, 1.0)
    lines = []
    for client_id in ("bytes", "time"):
        alone, other, ratio = compared(
            lambda: p99(latencies(broker, seconds)),
            lambda client_id=client_id: p99(beside(broker, client_id, seconds)),  # type: ignore[misc]
            rounds,
        )
        says = f"neighbours: p99 {alone:.2f} ms alone, {other:.2f} beside {GREEDY} clients with a quota of {client_id}"
        lines.append(f"{says}: {verdict(ratio, P99_MAX)}")
    return lines


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benches.quotas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of one section of the neighbours")
    given = parser.parse_args()
    load.build_client()
    with tempfile.TemporaryDirectory() as folder:
        broker = PEERS["pybroker os"](Path(folder))
        broker.start()
        try:
            print(checking(broker, given.rounds), flush=True)
            for line in neighbours(broker, given.rounds, given.seconds):
                print(line, flush=True)
        finally:
            broker.end()


if __name__ == "__main__":
    main()
