"""What a broker that was away makes of its disk: topics that were deleted, or deleted and made again, while it was
down; directories that nobody knows of.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.support.cluster import BrokerCluster, ClusterBroker, isr, running_cluster, until
from tests.topic_ids.lives import Lives

STARTED = "controller with epoch"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers for all tests here; each leaves it whole."""
    with running_cluster(tmp_path_factory.mktemp("reconcile")) as running:
        yield running


def written(cluster: BrokerCluster, name: str, value: str) -> None:
    """A record in partition 0, on every replica in sync."""

    def done() -> bool:
        for number in (1, 2, 3):
            if cluster.brokers[number].running:
                break
        leader = Lives(cluster.brokers[number].port).metadata(name).partitions[0].leader_id
        if leader not in cluster.brokers or not cluster.brokers[leader].running:
            return False
        code: int = Lives(cluster.brokers[leader].port).produce(name, value).error_code
        return code == 0

    until(done)


def staged(broker: ClusterBroker, topic_id: Uuid) -> list[Path]:
    """What waits for its removal."""
    return sorted((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*"))


def records_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


@pytest.mark.checklist(3, 4, 6, 7, 65, 66, 69, 70, 71, 78, 79, 94, 105, 110, 111, 112, 113, 114, 119, 124, 127, 128)
@pytest.mark.checklist(*range(51, 53), *range(60, 64), 76, 77, *range(83, 86), 103, "A5", "R11", "R30")
def test_a_broker_that_was_down_while_topics_were_deleted_and_made_again(cluster: BrokerCluster) -> None:
    """Its death is not even noticed: the new incarnation has a replica on it, too."""
    lives, away = Lives(cluster.brokers[1].port), cluster.brokers[3]
    gone, old = (lives.create(name, 2, replicas=3) for name in ("gone", "again"))
    for name in ("gone", "again"):
        written(cluster, name, "old")
    until(lambda: isr(cluster, "again") == isr(cluster, "gone") == [{1, 2, 3}] * 2)
    away.kill()
    assert [lives.delete(one).error_code for one in (gone, old)] == [0, 0]
    new = lives.create("again", 2, replicas=3)
    assert new != old
    until(lambda: isr(cluster, "again") == [{1, 2}] * 2)
    written(cluster, "again", "new")
    away.start()
    until(lambda: isr(cluster, "again") == [{1, 2, 3}] * 2)
    for partition in range(2):
        kept = records_in(away.data_dir / f"again-{partition}")
        assert (b"old" in kept, b"new" in kept) == (False, partition == 0)
    for topic_id in (gone, old):
        assert len(staged(away, topic_id)) == 2, "moved aside, and its delay runs"
        assert b"old" in records_in(staged(away, topic_id)[0])
    assert not list(away.data_dir.glob("gone-*"))
    assert Lives(away.port).produce(old, "late").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    until(lambda: {one.state for one in lives.deletions(gone, old)} == {"staged"})


@pytest.mark.checklist(70, "X38", "R30")
def test_what_nobody_knows_of_is_put_aside_and_never_removed(cluster: BrokerCluster) -> None:
    away = cluster.brokers[2]
    lives = Lives(cluster.brokers[1].port)
    lives.create("known", 1, replicas=3)
    written(cluster, "known", "kept")
    until(lambda: isr(cluster, "known") == [{1, 2, 3}])
    away.stop()
    unknown = Uuid.random()
    ghost = away.data_dir / "ghost-0"
    shutil.copytree(away.data_dir / "known-0", ghost)
    (ghost / "partition.metadata").write_text(f"version: 0\ntopic_id: {unknown}")
    away.settings["delete.topic.delay.ms"] = "0"
    for _ in range(2):
        away.start()
        (aside,) = staged(away, unknown)
        assert b"kept" in records_in(aside)
        assert not ghost.exists()
        assert f"(id {unknown}), partitions 0: nothing is known of that id" in away.console.read_text()
        away.stop()
    del away.settings["delete.topic.delay.ms"]
    away.start()
    assert staged(away, unknown) == [aside]
    until(lambda: isr(cluster, "known") == [{1, 2, 3}])
