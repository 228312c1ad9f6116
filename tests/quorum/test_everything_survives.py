"""All data that a cluster stores in its metadata is in the metadata log: it exists after all brokers were killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.client import TopicCollection, blocking
from tests.quorum.scene import Scene
from tests.upgrade.stored import DELETED, FOR_EVER, facts, fill, offsets_of, records, undeleted

SETTINGS = {**FOR_EVER, "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1000"}


@pytest.mark.parametrize("more", [{}, SNAPSHOTS], ids=["log", "snapshots"])
def test_all_metadata_survives_when_all_brokers_are_killed(tmp_path: Path, more: dict[str, str]) -> None:
    scene = Scene(tmp_path)
    for broker in scene.brokers.values():
        broker.settings |= SETTINGS | more
    first = scene.brokers[1]
    try:
        scene.start()
        fill(first, 3)
        with blocking.AdminClient({"bootstrap.servers": first.bootstrap}) as admin:
            held = {"records": records(first, DELETED, 2), "offsets": offsets_of(admin, DELETED)}
            topic_id = admin.list_topics()[DELETED].topic_id
            admin.delete_topics(TopicCollection.of_topic_ids([topic_id])).all()
        before = facts(first)
        for broker in scene.brokers.values():
            broker.kill()
        scene.start()
        assert facts(first) == before
        assert undeleted(first, str(topic_id)) == held
    finally:
        for broker in scene.brokers.values():
            broker.kill()
