"""Share groups on /metrics."""

from __future__ import annotations

from pathlib import Path

from pybroker.client import AcknowledgeType
from pybroker.client.blocking import ShareConsumer
from tests.groups.kit import create_topic, fill, unique, until
from tests.share.kit import set_group
from tests.support.brokers import PybrokerProcess
from tests.support.wire import free_port
from tests.transactions.test_metrics import scraped

ACKNOWLEDGED = "kafka_server_share_group_metrics_record_acknowledgement_count"
SESSIONS = "kafka_server_sharesessioncache"
GROUPS = "kafka_server_group_coordinator_metrics"


def test_share_groups_are_counted(tmp_path: Path) -> None:
    broker = PybrokerProcess(tmp_path, {"metrics.listener": f"127.0.0.1:{free_port()}"})
    broker.start()
    try:
        group, topic = unique("share"), create_topic(broker.bootstrap, 1)
        set_group(broker.port, group, {"share.auto.offset.reset": "earliest"})
        fill(broker.bootstrap, topic, 1, 3)
        config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
        with ShareConsumer(config) as consumer:
            consumer.subscribe([topic])
            # Batches may arrive separately.
            given = [next(iter(consumer))]
            consumer.acknowledge(given[0], AcknowledgeType.REJECT)
            given.append(next(iter(consumer)))
            consumer.acknowledge(given[1])
            consumer.commit()
            held = next(iter(consumer))
            figures = scraped(broker)
            assert figures[f'{ACKNOWLEDGED}{{ack_type="accept"}}'] == 1
            assert figures[f'{ACKNOWLEDGED}{{ack_type="reject"}}'] == 1
            assert figures["pybroker_share_records_in_flight"] == 1
            assert figures["pybroker_share_records_acquired_total"] == 3
            assert figures[f"{SESSIONS}_sharesessionscount"] == figures[f"{SESSIONS}_sharepartitionscount"] == 1
            assert figures[f'{GROUPS}_group_count{{protocol="share"}}'] == 1
            assert figures[f'{GROUPS}_share_group_count{{state="stable"}}'] == 1
            assert held.offset == 2
        until(lambda: scraped(broker)[f"{SESSIONS}_sharesessionscount"] == 0, "the session ends")
        assert scraped(broker)["pybroker_share_records_in_flight"] == 0
    finally:
        broker.kill()
