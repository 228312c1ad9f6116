"""Producers that are interrupted by kills, and a check that no acknowledged record is missing.

Each producer numbers its records per partition. The test stores the acknowledged records and their offsets outside the
broker. At the end, it reads all records and compares. The rules: an acknowledged record is at the acknowledged offset;
no number appears twice; numbers of one producer ascend within a partition.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import confluent_kafka as ck

from tests.clients.api import Received

MESSAGE_TIMEOUT_MS = 120_000


@dataclass
class History:
    """The acknowledgements of one producer. librdkafka's callbacks fill it in the producer's own thread."""

    name: str
    topic: str
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)  # (partition, number) → offset
    failed: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Writer:
    """An idempotent acks=all producer in a thread. It sends as fast as records are acknowledged."""

    IN_FLIGHT_MAX = 400

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str, compression: str) -> None:
        self.history = History(name, topic)
        self._partitions = partitions
        self._stop = threading.Event()
        self._producer = ck.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": compression,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _delivered(self, number: int) -> Callable[[ck.KafkaError | None, ck.Message], None]:
        def report(problem: ck.KafkaError | None, message: ck.Message) -> None:
            if problem is not None:
                self.history.failed[problem.name()] += 1
                return
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.history.acknowledged[partition, number] = offset

        return report

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) >= self.IN_FLIGHT_MAX:
                self._producer.poll(0.01)
                continue
            value = f"{self.history.name}:{number}:" + "v" * (number % 150)
            self._producer.produce(
                self.history.topic,
                value=value.encode(),
                partition=number % self._partitions,
                on_delivery=self._delivered(number),
            )
            self._producer.poll(0)
            number += 1

    @property
    def count(self) -> int:
        """Number of records acknowledged so far."""
        return len(self.history.acknowledged)

    def finish(self) -> History:
        """Stop sending, and wait until every record in flight has its response."""
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "it still sends"
        left = self._producer.flush(MESSAGE_TIMEOUT_MS / 1000)
        assert left == 0, f"{left} records have neither been acknowledged nor refused"
        return self.history


def violations(found: list[Received], histories: list[History]) -> list[str]:
    """Return every violation of the rules in the log that was read; empty if there is none."""
    wrong: list[str] = []
    seen: dict[tuple[str, int, int], int] = {}
    newest: dict[tuple[str, int], int] = {}
    next_offset: dict[int, int] = defaultdict(int)
    for each in found:
        if each.offset != next_offset[each.partition]:
            wrong.append(f"gap: partition {each.partition} goes from {next_offset[each.partition]} to {each.offset}")
        next_offset[each.partition] = each.offset + 1
        name, number_text, _ = (each.value or "").split(":")
        number = int(number_text)
        where = (name, each.partition, number)
        if where in seen:
            wrong.append(f"doubled: {where} at {seen[where]} and {each.offset}")
        seen[where] = each.offset
        if newest.get((name, each.partition), -1) > number:
            wrong.append(f"reordered: {where} at {each.offset} follows {newest[name, each.partition]}")
        newest[name, each.partition] = number
    for history in histories:
        for (partition, number), offset in history.acknowledged.items():
            at = seen.get((history.name, partition, number))
            if at != offset:
                wrong.append(f"acknowledged {history.name} {partition} {number} at {offset}, found at {at}")
        if history.failed:
            wrong.append(f"{history.name} was refused records: {dict(history.failed)}")
    return wrong
