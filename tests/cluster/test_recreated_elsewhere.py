"""A topic is created again on another broker under an idempotent producer that keeps running."""

from __future__ import annotations

from pathlib import Path

from pybroker.client import blocking
from pybroker.protocol.error_codes import ErrorCode
from tests.support.cluster import running_cluster
from tests.support.replicas import create, topic_id
from tests.topic_ids.kit import idempotent, produce
from tests.wire.client import WireClient


def test_an_idempotent_producer_goes_on_at_a_broker_that_knows_nothing_of_it(tmp_path: Path) -> None:
    """The broker must not answer OUT_OF_ORDER_SEQUENCE_NUMBER, which is a fatal error for librdkafka, as in Kafka."""
    with running_cluster(tmp_path, 2) as cluster:
        for leader, sequences in ((1, (0, 1, 2)), (2, (3, 4))):
            broker = cluster.brokers[leader]
            create(cluster, "again", [leader])
            with WireClient(broker.port) as client:
                rows = [
                    produce(client, topic_id(broker, "again"), idempotent(71, sequence, b"value"))
                    for sequence in sequences
                ]
            assert [(row.error_code, row.base_offset) for row in rows] == [
                (ErrorCode.NONE, offset) for offset in range(len(sequences))
            ]
            with blocking.AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
                admin.delete_topics(["again"])
