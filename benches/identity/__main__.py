"""`python -m benches.identity`: topic ids against names on one broker, and how soon a re-created topic is writable.

    whole-broker Fetch   10,000 topics in one request, by name (v12) and by id (v13)
    Produce, Metadata    the same topics, by name and by id
    listing              10,000 topics: Metadata against ListTopics v0 (KIP-142) and v1 (with ids)
    re-creation          DeleteTopics, CreateTopics, first acknowledged Produce: Apache Kafka and pybroker in turn,
                         pybroker flushes before it acknowledges (log.flush.mode=commit), Apache Kafka does not

`python -m benches.native` measures single functions: lookup, encoding, decoding at up to 1,000,000 partitions.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benches import readme
from benches.compare.case import Figures
from benches.compare.peers import PEERS
from benches.identity.requests import (
    BY_ID,
    BY_NAME,
    create,
    exchange,
    fetch_all,
    metadata_of,
    name_of,
    produce_all,
    produce_each,
)
from pybroker.native import Uuid
from pybroker.protocol import messages
from tests.support.brokers import BrokerProcess
from tests.wire.client import WireClient

OURS, KAFKA = "pybroker", "kafka"
RETRIED = {3, 5, 6, 36, 100}
"""Error codes during a topic's creation: unknown, without a leader, or the name still reserved."""
GIVE_UP_S = 240.0
"""On a loaded machine Apache Kafka takes minutes for a request right after the creation of 10,000 partitions."""


RATIO_MAX = 0.2
"""Bar for the time until a re-created topic is writable, as a fraction of Apache Kafka's."""


def table(title: str, rows: dict[str, Figures], ratio_max: float | None = None) -> str:
    """Return a Markdown table: one row per variant, with the ratio to the first."""
    figures = list(next(iter(rows.values())))
    cells = {name: [readme.shown(row[figure]) for figure in figures] for name, row in rows.items()}
    against, first = next(iter(rows.items()))
    for name, row in list(rows.items())[1:]:
        ratios = [row[figure] / first[figure] if first[figure] else None for figure in figures]
        cells[f"{name} / {against}"] = ["" if ratio is None else _verdict(ratio, ratio_max) for ratio in ratios]
    return readme.table(title, "", figures, cells)


def _verdict(ratio: float, ratio_max: float | None) -> str:
    if ratio_max is None:
        return readme.shown(ratio)
    return f"{readme.shown(ratio)} (bar ≤ {ratio_max}: {'met' if ratio <= ratio_max else 'MISSED'})"


def on_one_broker(broker: BrokerProcess, topics: int, rounds: int) -> list[str]:
    """Measure Fetch, Produce and Metadata of all topics by name and by id, and listing."""
    tables = []
    with WireClient(broker.port, timeout_s=180) as client:
        made = create(client, [name_of(number) for number in range(topics)], 1)
        by = {"name": BY_NAME, "id": BY_ID}
        for what, request in (("Fetch", fetch_all(made)), ("Produce", produce_each(made))):
            ways = {
                f"by {how} (v{version})": exchange(broker, client, request, version, rounds)
                for how, version in by.items()
            }
            tables.append(table(f"{what} of {topics:,} partitions of as many topics, 30-character names", ways))
        ways = {
            f"by {how} (v12)": exchange(broker, client, metadata_of(made, by_id=how == "id"), 12, rounds) for how in by
        }
        tables.append(table(f"Metadata of {topics:,} topics that are named", ways))
        every = messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        listing = messages.ListTopicsRequest(list_internal=True)
        ways = {
            "Metadata v12": exchange(broker, client, every, 12, rounds),
            "ListTopics v0": exchange(broker, client, listing, 0, rounds),
            "ListTopics v1": exchange(broker, client, listing, 1, rounds),
        }
        tables.append(table(f"Listing {topics:,} topics of one partition", ways))
    return tables


def recreation_ms(client: WireClient, name: str, partitions: int) -> float:
    """Return the milliseconds from sending DeleteTopics until every partition of the new incarnation has acknowledged a
    record."""
    begun = time.perf_counter()
    delete = messages.DeleteTopicsRequest(
        topics=[messages.DeleteTopicsRequest_DeleteTopicState(name=name, topic_id=Uuid.ZERO)], timeout_ms=30_000
    )
    (deleted,) = client.call(delete, 6).responses
    if deleted.error_code:
        raise RuntimeError(f"{name}: not deleted: error {deleted.error_code}")
    new = messages.CreateTopicsRequest(
        timeout_ms=30_000,
        topics=[
            messages.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        ],
    )
    created = until_accepted(begun, lambda: client.call(new, 7).topics[0])
    produce = produce_all(name, created.topic_id, partitions)
    until_accepted(begun, lambda: worst(client.call(produce, BY_ID).responses[0].partition_responses))
    return (time.perf_counter() - begun) * 1e3


def worst(partitions: Sequence[Any]) -> Any:
    """Return a partition with an error, or any partition."""
    return next((partition for partition in partitions if partition.error_code), partitions[0])


def until_accepted(begun: float, ask: Callable[[], Any]) -> Any:
    """Repeat a request while the response says that the topic is not ready."""
    while True:
        answer = ask()
        code = getattr(answer, "error_code", 0)
        if not code:
            return answer
        if code not in RETRIED or time.perf_counter() - begun > GIVE_UP_S:
            raise RuntimeError(f"error {code}")


def recreation(brokers: dict[str, BrokerProcess], others: int, rounds: int) -> str:
    """Measure delete → re-create → first acknowledged produce, with 1 and 16 partitions. The brokers run in turn, round
    by round, so a ratio compares measurements close in time."""
    with contextlib.ExitStack() as stack:
        clients = {
            peer: stack.enter_context(WireClient(broker.port, timeout_s=300)) for peer, broker in brokers.items()
        }
        figures: dict[str, Figures] = {peer: {} for peer in clients}
        for client in clients.values():
            for number in range(10 if others else 0):  # Apache Kafka accepts fewer than 10,000 partitions per request.
                create(client, [f"others-{number}"], others // 10)
        for partitions in (1, 16):
            name = f"recreated-{others}-{partitions}"
            times: dict[str, list[float]] = {peer: [] for peer in clients}
            for client in clients.values():
                create(client, [name], partitions)
                for _ in range(3):  # A JVM becomes fast only under load.
                    recreation_ms(client, name, partitions)
            for _ in range(rounds):
                for peer, client in clients.items():
                    times[peer].append(recreation_ms(client, name, partitions))
            for peer, taken in times.items():
                figures[peer][f"{partitions} partition{'s' if partitions > 1 else ''}, ms"] = median(taken)
    title = f"Delete, re-create, first acknowledged produce beside {others:,} other partitions"
    return table(title, figures, RATIO_MAX)


@contextlib.contextmanager
def running(*brokers: BrokerProcess) -> Iterator[None]:
    """Run the brokers during the block."""
    try:
        for broker in brokers:
            broker.start()
        yield
    finally:
        for broker in brokers:
            broker.kill()


def main() -> None:
    """Run all cases and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000, help="topics for Fetch and listing")
    parser.add_argument("--others", type=int, default=10_000, help="other partitions next to the re-created topic")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--dir", type=Path, help="folder for the brokers' data (default: a temporary folder)")
    readme.add_option(parser)
    parser.add_argument("--only", choices=("one-broker", "recreation"), help="run only this part")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pybroker-identity-", dir=arguments.dir) as folder:
        if arguments.only != "recreation":
            alone = PEERS["pybroker os"](Path(folder) / "ids")  # Do not measure the disk.
            with running(alone):
                tables = on_one_broker(alone, arguments.topics, arguments.rounds)
            readme.publish("benches.identity, one broker", tables, into_readme=arguments.readme)
        if arguments.only != "one-broker":
            brokers = {peer: PEERS[peer](Path(folder) / peer) for peer in (KAFKA, OURS)}
            with running(*brokers.values()):
                tables = [recreation(brokers, others, arguments.rounds) for others in (0, arguments.others)]
            readme.publish("benches.identity, re-creation", tables, into_readme=arguments.readme)


if __name__ == "__main__":
    main()
