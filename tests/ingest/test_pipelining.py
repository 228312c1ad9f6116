"""Staged appends of all sizes, sent without waiting for answers and with other requests between them."""

from __future__ import annotations

import pybroker
from pybroker.protocol.messages import DescribeClusterRequest
from tests.ingest.client import COMMITTED, Attempt, IngestClient, append_request, batch

SIZES = (10, 70_000, 900_000, 64 * 1024, 300_000, 10, 10, 900_000, 900_000, 65_000, 900_000, 10, 200_000) * 3
PARTITIONS = 2


def test_appends_that_overlap_are_staged_whole_and_answered_in_order() -> None:
    with pybroker.Broker() as broker, IngestClient(broker.port) as client, IngestClient(broker.port) as other:
        topic_id = client.create("events", PARTITIONS)
        epoch = client.begin(topic_id, "load").epoch
        attempts = [Attempt(0), Attempt(1)]
        expected: dict[int, dict[int, list[str]]] = {number: {0: [], 1: []} for number in range(PARTITIONS)}
        # Both connections send at once: their frames change threads, and their buffers are reused.
        for number, size in enumerate(SIZES):
            partition = number % PARTITIONS
            for connection, attempt in zip((client, other), attempts, strict=True):
                values = [f"{attempt.writer}-{number}-{row}-".ljust(size // 2, "x") for row in range(2)]
                data = batch(values)
                rows_before = attempt.rows.get(partition, 0)
                connection.send(append_request(topic_id, "load", epoch, attempt, [(partition, rows_before, data)]))
                attempt.add(partition, data, len(values))
                expected[partition][attempt.writer] += values
                if number % 5 == 0:
                    connection.send(DescribeClusterRequest())
        for connection in (client, other):
            rows = dict.fromkeys(range(PARTITIONS), 0)
            for number in range(len(SIZES)):
                partition = number % PARTITIONS
                rows[partition] += 2
                answer = connection.receive()
                assert answer.error_code == 0, answer
                [part] = answer.partitions
                assert (part.partition, part.error_code, part.next_sequence) == (partition, 0, rows[partition])
                if number % 5 == 0:
                    assert connection.receive().cluster_id == client.cluster_id
        answer = client.commit(topic_id, "load", epoch, attempts)
        assert (answer.error_code, answer.state) == (0, COMMITTED), answer
        for partition, by_writer in expected.items():
            wanted = by_writer[0] + by_writer[1]
            assert [value for _, value in client.read(topic_id, partition)] == wanted
