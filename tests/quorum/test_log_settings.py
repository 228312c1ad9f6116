"""Settings of the metadata log: its directory, its segments, its retention, and its idle records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.client import AlterConfigOp, ConfigResource, ConfigResourceType, NewTopic, blocking
from pybroker.protocol import messages as m
from tests.quorum.scene import Scene, until
from tests.support.brokers import PybrokerProcess
from tests.wire.client import WireClient

FOLDER = "__cluster_metadata-0"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PybrokerProcess]:
    """The only broker of a cluster, with two log directories. The test starts it."""
    with Scene(tmp_path) as scene:
        alone = scene.brokers[1]
        del alone.settings["controller.quorum.voters"]
        alone.settings |= {
            "log.dirs": f"{tmp_path}/one,{tmp_path}/two",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
        }
        yield alone


def create(broker: PybrokerProcess, name: str) -> None:
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)]).all()


def high_watermark(broker: PybrokerProcess) -> int:
    partition = m.DescribeQuorumRequest_PartitionData(partition_index=0)
    topic = m.DescribeQuorumRequest_TopicData(topic_name="__cluster_metadata", partitions=[partition])
    with WireClient(broker.port) as client:
        answer = client.call(m.DescribeQuorumRequest(topics=[topic]), 2)
    return int(answer.topics[0].partitions[0].high_watermark)


def test_the_metadata_log_is_in_metadata_log_dir(broker: PybrokerProcess, tmp_path: Path) -> None:
    broker.settings["metadata.log.dir"] = f"{tmp_path}/three"
    with pytest.raises(RuntimeError, match=f"metadata.log.dir=.*{tmp_path}/three is not in log.dirs"):
        broker.start()
    broker.settings["metadata.log.dir"] = f"{tmp_path}/two"
    broker.start()
    create(broker, "a")
    assert (tmp_path / "two" / FOLDER).is_dir()
    assert not (tmp_path / "one" / FOLDER).exists()
    broker.stop()

    del broker.settings["metadata.log.dir"]
    with pytest.raises(RuntimeError, match=f"Set metadata.log.dir={tmp_path}/two"):
        broker.start()
    broker.settings["metadata.log.dir"] = f"{tmp_path}/two"
    broker.start()
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        assert "a" in admin.list_topics()


def test_old_segments_are_rolled_and_the_retention_keeps_snapshots(broker: PybrokerProcess, tmp_path: Path) -> None:
    broker.settings |= {
        "metadata.log.segment.ms": "1",
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "metadata.max.retention.bytes": "-1",
        "metadata.max.retention.ms": "-1",
    }
    broker.start()
    create(broker, "a")
    folder = tmp_path / "one" / FOLDER
    topic = ConfigResource(ConfigResourceType.TOPIC, "a")
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:

        def has_many() -> bool:
            admin.incremental_alter_configs({topic: [AlterConfigOp("retention.ms", "-1")]}).all()
            return len(list(folder.glob("*.checkpoint"))) > 3 and len(list(folder.glob("*.log"))) > 3

        until(has_many)
        assert (folder / f"{0:020}.log").exists()


def test_a_controller_appends_records_while_nothing_changes(broker: PybrokerProcess) -> None:
    broker.settings["metadata.max.idle.interval.ms"] = "20"
    broker.start()
    before = high_watermark(broker)
    until(lambda: high_watermark(broker) > before + 3)
