"""`python -m benches.metrics [--rounds N] [--partitions N]`:

    counting  nanoseconds to update the metrics of one request, relative to its CPU (one record of 100 bytes, acks=1,
              `log.flush.mode=os`)
    scraping  the same CPU without metrics.listener, and with one scrape per second (Prometheus: every 15 s)
    scrape    duration of a page with N partitions, and the time that data threads ran meanwhile
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benches.compare import load
from benches.compare.peers import pybroker
from benches.rounds import CPU, MEGABYTES, compared, data_threads_ran, verdict
from pybroker.client import NewTopic, blocking
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port

COST_MAX = 0.01
SCRAPE_MS_MAX = 100.0
SCRAPES = 20
PARTITIONS_A_TOPIC = 100


@contextlib.contextmanager
def running(folder: Path, **settings: str) -> Iterator[BrokerProcess]:
    """Run a broker that leaves flushing to the operating system."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    broker = pybroker(folder, {"log.flush.mode": "os", **given})
    broker.start()
    try:
        yield broker
    finally:
        broker.end()


def scrape(address: str) -> float:
    """Return the milliseconds of fetching the page."""
    begun = time.perf_counter()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        answer.read()
    return (time.perf_counter() - begun) * 1000


def counting_ns() -> float:
    """Return the time measured by the crate's example."""
    command = ["cargo", "run", "-q", "--release", "-p", "pybroker-storage", "--example", "count_cost"]
    done = subprocess.run(command, cwd=load.ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def of_requests(folder: Path, rounds: int) -> Iterator[str]:
    """Yield the cost of metrics per small request."""
    address = f"127.0.0.1:{free_port()}"
    with running(folder / "quiet") as quiet, running(folder / "scraped", metrics_listener=address) as scraped:

        def measured(broker: BrokerProcess) -> float:
            return float(load.run(broker, "produce", topic="cost", acks=1, megabytes=MEGABYTES)[CPU])

        def while_scraped() -> float:
            stop = threading.Event()

            def scrape_again() -> None:
                while not stop.wait(1.0):
                    scrape(address)

            thread = threading.Thread(target=scrape_again)
            thread.start()
            try:
                return measured(scraped)
            finally:
                stop.set()
                thread.join()

        measured(quiet)
        one, other, ratio = compared(lambda: measured(quiet), while_scraped, rounds)
    nanos = counting_ns()
    share = nanos / 1000 / one
    yield f"counting: {nanos:.0f} ns of {one:.2f} µs: {verdict(share, COST_MAX)}"
    yield f"scraping: {one:.2f} µs a request without, {other:.2f} µs scraped: {verdict(ratio, 1 + COST_MAX)}"


def of_scrapes(folder: Path, partitions: int) -> Iterator[str]:
    """Yield the cost of a page with many partitions."""
    address = f"127.0.0.1:{free_port()}"
    limits = {"metrics_partitions_max": str(partitions)}
    with running(folder / "many", metrics_listener=address, **limits) as broker:
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            topics = range(partitions // PARTITIONS_A_TOPIC)
            admin.create_topics(
                [NewTopic(f"topic-{number}", num_partitions=PARTITIONS_A_TOPIC) for number in topics]
            ).all()
        while data_threads_ran(broker.pid) != data_threads_ran(broker.pid):
            time.sleep(1.0)
        before = data_threads_ran(broker.pid)
        figures = [scrape(address) for _ in range(SCRAPES)]
        ran_ms = (data_threads_ran(broker.pid) - before) / 1e6
    ratio = verdict(median(figures) / SCRAPE_MS_MAX, 1.0)
    yield f"scrape: {median(figures):.0f} ms with {partitions:,} partitions, of {SCRAPE_MS_MAX:.0f} ms: {ratio}"
    yield f"data threads ran {ran_ms:.3f} ms during {SCRAPES} scrapes"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.metrics")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=10_000)
    given = parser.parse_args()
    load.build_client()
    with tempfile.TemporaryDirectory() as folder:
        for line in of_requests(Path(folder), given.rounds):
            print(line, flush=True)
        for line in of_scrapes(Path(folder), given.partitions):
            print(line, flush=True)


if __name__ == "__main__":
    main()
