"""Data directories and a cluster of an earlier version start unchanged: records, ids, groups' offsets, settings, rights
and deleted topics are there. `stored.py` made the archive."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.quorum.test_joining import JoiningBroker
from tests.quorum.test_migrate import migrate
from tests.support.brokers import BrokerProcess
from tests.upgrade.stored import DELETED, FACTS, facts, one_broker, three_brokers, undeleted

ARCHIVE = Path(__file__).with_name("data-2026-11.tar.xz")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The unpacked archive; each test changes its own copy."""
    # Python before 3.11.4 has no filters.
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(tmp_path, **options)
    return tmp_path


def expected(stored: Path, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((stored / FACTS).read_text())[kind]
    return found


def check(broker: BrokerProcess, before: dict[str, Any]) -> None:
    assert facts(broker) == before["facts"]
    (topic_id,) = (topic_id for name, topic_id in before["facts"]["deletions"] if name == DELETED)
    assert undeleted(broker, topic_id) == before["deleted"]


@pytest.mark.parametrize("kind", ["stopped", "killed"])
def test_a_broker_of_an_earlier_version_starts(stored: Path, kind: str) -> None:
    broker = one_broker(stored / kind)
    broker.start()
    try:
        check(broker, expected(stored, kind))
        broker.restart()
    finally:
        broker.kill()


@pytest.mark.parametrize("kind", ["stopped", "killed"])
def test_a_broker_of_an_earlier_version_becomes_a_quorum(stored: Path, kind: str) -> None:
    broker = JoiningBroker(stored / kind, 1, None)
    del broker.settings["node.id"]
    broker.settings |= {**one_broker(stored / kind).settings, "min.insync.replicas": "1"}
    migrate({**broker.settings, "metadata.store": "quorum"}, broker.data_dir)
    broker.start()
    try:
        check(broker, expected(stored, kind))
    finally:
        broker.kill()


def test_a_cluster_of_an_earlier_version_starts(stored: Path) -> None:
    cluster = three_brokers(stored / "cluster")
    cluster.zookeeper.start()
    try:
        cluster.start()
        check(cluster.brokers[1], expected(stored, "cluster"))
    finally:
        cluster.kill()
        cluster.zookeeper.kill()
