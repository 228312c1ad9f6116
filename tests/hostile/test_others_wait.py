"""Measures how long other clients wait while one client causes much work."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.kit import batch, create, produce
from tests.wire.client import WireClient

BAR_S = 0.3
"""Limit of the 99th percentile for other clients' requests, above the value on this machine without load."""
ALONE = 200
"""Requests of the other clients before the attack."""
MIB = 1 << 20


def compressed(*values: bytes) -> bytes:
    """Return a zstd batch, whatever it decompresses to."""
    made = native.ClientBatch("zstd", 1 << 31)
    for value in values:
        assert made.append(int(time.time() * 1000), b"key", value)
    return made.build()


class Honest:
    """Writes small records, half of them compressed, one after the other."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._client = WireClient(broker.port, client_id="honest")
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._records = (batch(b"value"), compressed(b"value" * 100))
        self.took: list[float] = []

    def write(self) -> None:
        begun = time.monotonic()
        row = produce(self._client, self._topic, self._records[len(self.took) % 2], 9)
        assert row.error_code == ErrorCode.NONE
        self.took.append(time.monotonic() - begun)

    def _write(self) -> None:
        while not self._over.is_set():
            self.write()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Write in a separate thread while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            self._client.close()


def percentile_99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


def send(client: WireClient, topic: str, records: bytes, count: int) -> list[int]:
    """Send one Produce that has the batch this many times; return the error codes."""
    rows = [m.ProduceRequest_PartitionProduceData(index=0, records=records)] * count
    data = m.ProduceRequest_TopicProduceData(name=topic, partition_data=rows)
    answer = client.call(m.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), 9)
    return [row.error_code for row in answer.responses[0].partition_responses]


def judged(
    broker: BrokerProcess, topic: str, records: bytes, count: int, rounds: int, **configs: str
) -> list[list[int]]:
    """Return the attacker's error codes; fail if the other clients waited."""
    with WireClient(broker.port) as client:
        create(client, topic, 1, 7, **configs)
        create(client, f"{topic}-honest")
        honest = Honest(broker, f"{topic}-honest")
        for _ in range(ALONE):
            honest.write()
        alone = percentile_99(honest.took)
        honest.took.clear()
        with honest.at_work():
            told = [send(client, topic, records, count) for _ in range(rounds)]
        assert percentile_99(honest.took) <= BAR_S + alone, (alone, sorted(honest.took)[-5:])
        assert max(honest.took) <= 10 * BAR_S + alone
    return told


def test_small_batches_that_decompress_to_much(start_broker: StartBroker) -> None:
    """A batch of 11 KB decompresses to 110 MB, and one request contains it 600 times. In an earlier version, others
    waited 30 s for the thread that decompressed them all. The request as a whole has a limit."""
    broker = start_broker({"num.network.threads": "1"})
    bomb = compressed(bytes(110 * MIB))
    assert len(bomb) < 16_000
    for codes in judged(broker, "bombs", bomb, 600, 3):
        assert codes[:2] == [ErrorCode.NONE] * 2
        assert set(codes) == {ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE}
        assert codes == sorted(codes), "in the request's order"


def test_batches_that_are_recompressed(start_broker: StartBroker) -> None:
    """Recompression for a topic's `compression.type` has its own limit."""
    broker = start_broker({"num.network.threads": "1"})
    pattern = random.Random(1).randbytes(4_000)
    for count, expected in ((5_000, ErrorCode.NONE), (25_000, ErrorCode.MESSAGE_TOO_LARGE)):
        records = compressed(pattern * count)
        assert len(records) < 1_000_000
        told = judged(broker, f"recompressed-{count}", records, 1, 5, **{"compression.type": "gzip"})
        assert {code for codes in told for code in codes} == {expected}
