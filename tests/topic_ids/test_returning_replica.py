"""A replica that returns to a broker after its topic was deleted: the first LeaderAndIsr of a controller, which is
FULL, does not name it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.topic_ids.lives import Lives, until

WARNING = "left over on disk: topic orders (id {}), partitions 0-1 will be removed from disk after "


@pytest.mark.checklist(3, 6, 65, 69, 70, 78, 79, 80, 124, "X38", "R30")
@pytest.mark.parametrize("recreated", [True, False])
def test_of_a_deleted_topic_it_is_staged(start_broker: StartBroker, tmp_path: Path, recreated: bool) -> None:
    """The case is a disk that was unplugged, or a broker that missed StopReplica: the data is back, but its topic is
    deleted."""
    one, two, away = tmp_path / "one", tmp_path / "two", tmp_path / "away"
    broker = start_broker({"log.dirs": str(one), "delete.topic.delay.ms": "0"})
    lives = Lives(broker.port)
    old = lives.create("orders", 2)
    assert lives.produce(old, "old").error_code == 0
    broker.stop()
    for partition in range(2):
        shutil.copytree(one / f"orders-{partition}", away / f"orders-{partition}")
    broker.start()
    lives = Lives(broker.port)
    assert lives.delete(old).error_code == 0
    new = lives.create("orders" if recreated else "others", 2)
    assert lives.produce(new, "new").error_code == 0
    until(lambda: [row.state for row in lives.deletions(old)] == ["removed"], "the last replica is gone")
    broker.stop()
    shutil.move(away, two)
    broker.settings |= {"log.dirs": f"{one},{two}", "delete.topic.delay.ms": "4h"}
    broker.start()
    lives = Lives(broker.port)
    assert lives.metadata("orders").topic_id == (new if recreated else Uuid.ZERO)
    assert lives.read(new) == ["new"]
    assert lives.fetch(old).error_code == lives.produce(old, "late").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    staged = [two / "deleting" / f"{old.hex}_{partition}" for partition in range(2)]
    assert all((path / "partition.metadata").is_file() for path in staged)
    assert not list(two.glob("orders-*"))
    (line,) = (line for line in broker.console.read_text().splitlines() if WARNING.format(old) in line)
    assert " WARN " in line
    for crash in (False, True):  # later starts neither hasten its end nor forget it
        broker.restart(crash=crash)
        lives = Lives(broker.port)
        assert (lives.read(new), [path.is_dir() for path in staged]) == (["new"], [True, True])
    broker.stop()
    assert (staged[0] / "00000000000000000000.log").read_bytes().count(b"old") == 1


@pytest.mark.checklist(70, "X38", "R30", "B9")
def test_of_a_topic_that_nobody_knows_it_stays_where_it_is(start_broker: StartBroker) -> None:
    """An unknown id may be the store's fault: absence of information never deletes."""
    broker = start_broker()
    lives = Lives(broker.port)
    known = lives.create("orders", 1)
    assert lives.produce(known, "kept").error_code == 0
    broker.stop()
    unknown = Uuid.random()
    ghost = broker.data_dir / "ghost-0"
    shutil.copytree(broker.data_dir / "orders-0", ghost)
    (ghost / "partition.metadata").write_text(f"version: 0\ntopic_id: {unknown}")
    before = {path.name: path.read_bytes() for path in ghost.iterdir()}
    for crash in (False, True):
        broker.start()
        lives = Lives(broker.port)
        assert lives.metadata("ghost").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert lives.fetch(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert lives.read("orders") == ["kept"]
        line = f"the cluster does not know its topic id; it stays where it is replica={ghost} id={unknown}"
        assert line in broker.console.read_text()
        broker.kill() if crash else broker.stop()
        assert {path.name: path.read_bytes() for path in ghost.iterdir()} == before
    assert not list((broker.data_dir / "deleting").glob("*"))
