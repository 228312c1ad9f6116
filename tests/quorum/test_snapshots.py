"""Brokers write snapshots of the metadata log by themselves: the log stays small, and no metadata is lost."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pybroker.client import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaError, NewTopic, blocking
from tests.quorum.scene import SIZE, WAIT_S, QuorumBroker, Scene, until
from tests.quorum.test_dump_log import dump

TOPICS = 100
ROUNDS = 12
RECORD_BYTES = 8192
SEGMENT_BYTES = 8192
TINY = {
    "metadata.log.max.record.bytes.between.snapshots": str(RECORD_BYTES),
    "metadata.log.segment.bytes": str(SEGMENT_BYTES),
    "metadata.max.retention.bytes": "0",
}
RESOURCES = [ConfigResource(ConfigResourceType.TOPIC, f"t{number}") for number in range(TOPICS)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, TINY) as scene:
        scene.start()
        yield scene


def log_of(broker: QuorumBroker) -> Path:
    return broker.data_dir / "__cluster_metadata-0"


def snapshots(broker: QuorumBroker) -> list[Path]:
    return sorted(log_of(broker).glob("*.checkpoint"))


def log_start(broker: QuorumBroker) -> int:
    return min(int(path.stem) for path in log_of(broker).glob("*.log"))


def make_topics(scene: Scene) -> None:
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        admin.create_topics([NewTopic(resource.name, 1, 1) for resource in RESOURCES]).all()


def change_settings(scene: Scene, rounds: range) -> None:
    """Change a setting of each topic; each change is a record."""
    with blocking.AdminClient({"bootstrap.servers": scene.bootstrap}) as admin:
        for number in rounds:
            change = [AlterConfigOp("retention.ms", str(10**9 + number))]
            admin.incremental_alter_configs(dict.fromkeys(RESOURCES, change)).all()


def metadata(broker: QuorumBroker) -> dict[str, dict[str, Any]]:
    """Return the metadata that one broker shows."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        topics = {name: topic.topic_id for name, topic in admin.list_topics().items()}
        configs = admin.describe_configs(RESOURCES).all()
        settings: dict[str, Any] = {resource.name: config["retention.ms"].value for resource, config in configs.items()}
    return {"topics": topics, "settings": settings}


def expected_settings(last: int) -> dict[str, str]:
    return {resource.name: str(10**9 + last) for resource in RESOURCES}


def test_log_stays_small_and_all_brokers_start_from_it(scene: Scene, tmp_path: Path) -> None:
    until(scene.all_vote)
    make_topics(scene)
    change_settings(scene, range(ROUNDS))
    brokers = list(scene.brokers.values())
    until(lambda: all(len(snapshots(broker)) == 2 and log_start(broker) > 0 for broker in brokers))
    change_settings(scene, range(ROUNDS, ROUNDS + 1))
    until(lambda: all(metadata(broker)["settings"] == expected_settings(ROUNDS) for broker in brokers))
    before = [metadata(broker) for broker in brokers]
    for broker in brokers:
        assert len(snapshots(broker)) == 2
        size = sum(path.stat().st_size for path in log_of(broker).glob("*.log"))
        # The log has the records since the older of two snapshots, a change during the write of each snapshot, and the
        # batches' overhead.
        assert size < 12 * RECORD_BYTES
        assert f"wrote a snapshot of the metadata log end_offset={int(snapshots(broker)[-1].name[:20])}" in log(broker)

    copy = shutil.copy(snapshots(brokers[0])[-1], tmp_path)
    printed = dump(Path(copy))
    assert printed.count("CONFIG_RECORD") >= TOPICS
    assert "SnapshotFooter" in printed

    for broker in brokers:
        broker.kill()
    scene.start()
    until(lambda: [metadata(broker) for broker in brokers] == before)
    for broker in brokers:
        # The broker does not treat the metadata log as a replica of a topic, not even of an unknown one.
        assert "replica not served" not in log(broker)
        assert "__cluster_metadata" not in log_dirs(broker)
    change_settings(scene, range(ROUNDS + 1, ROUNDS + 2))
    until(lambda: metadata(brokers[0])["settings"] == expected_settings(ROUNDS + 1))


def test_broker_that_was_down_fetches_a_snapshot(scene: Scene) -> None:
    until(scene.all_vote)
    make_topics(scene)
    away = scene.brokers[SIZE]
    others = [broker for broker in scene.brokers.values() if broker is not away]
    away.kill()
    had = max(int(path.stem) for path in log_of(away).glob("*.log"))
    change_settings(scene, range(ROUNDS))
    # Two snapshots are written after the last segment of the stopped broker, which has at most the records of one
    # snapshot.
    until(lambda: all(log_start(broker) > had + 3 * TOPICS for broker in others))
    scene.start()
    until(lambda: metadata(away)["settings"] == expected_settings(ROUNDS - 1))
    assert metadata(away) == metadata(others[0])
    assert log_start(away) > had + 3 * TOPICS


def test_brokers_killed_while_they_write_a_snapshot_lose_nothing(scene: Scene) -> None:
    until(scene.all_vote)
    make_topics(scene)
    rounds, acknowledged, enough = count(), [-1], threading.Event()

    def change() -> None:
        while not enough.is_set():
            number = next(rounds)
            # The test may kill the broker that gets this request.
            with contextlib.suppress(KafkaError):
                change_settings(scene, range(number, number + 1))
                acknowledged.append(number)

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            for broker in scene.brokers.values():
                give_up = time.monotonic() + WAIT_S
                while not list(log_of(broker).glob("*.own.part")):
                    assert time.monotonic() < give_up
                    time.sleep(0.001)
                broker.kill()
                scene.start()
        finally:
            enough.set()
        changing.result()
    brokers = list(scene.brokers.values())

    def all_there() -> bool:
        settings = [value for broker in brokers for value in metadata(broker)["settings"].values()]
        return all(int(value) >= 10**9 + acknowledged[-1] for value in settings)

    until(all_there)
    assert acknowledged[-1] > 0
    until(lambda: not any(list(log_of(broker).glob("*.part")) for broker in brokers))


def log_dirs(broker: QuorumBroker) -> str:
    """The contents of the log directories as text."""
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
        return str(admin.describe_log_dirs([int(broker.settings["node.id"])]))


def log(broker: QuorumBroker) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", broker.console.read_text())
