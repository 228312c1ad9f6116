"""`log.dir.layout=topic-id` (KIP-516, "log.dir layout"): `{first two digits}/{topic id in hex}_{partition}`, for new
partitions and for those that a start finds; both layouts are read side by side.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pybroker.native import Uuid
from tests.conftest import StartBroker
from tests.log_dirs.test_moves import PATIENCE_S, RECORDS, move, place, wait_for
from tests.support.brokers import BrokerProcess
from tests.support.walk import files
from tests.topic_ids.stopped import topic_ids
from tests.trouble.traffic import create, missing, read, send

BY_ID = {"log.dir.layout": "topic-id"}


def by_id(topic_id: Uuid, partition: int = 0) -> Path:
    return Path(topic_id.hex[:2]) / f"{topic_id.hex}_{partition}"


def partitions_in(folder: Path) -> set[str]:
    return {str(path.parent.relative_to(folder)) for path in files(folder) if path.name == "partition.metadata"}


def fill(broker: BrokerProcess, topic: str, partitions: int = 1) -> dict[int, dict[int, bytes]]:
    create(broker, topic, partitions)
    return {p: send(broker, topic, p, RECORDS[:50]).acknowledged for p in range(partitions)}


def check(broker: BrokerProcess, topic: str, kept: dict[int, dict[int, bytes]]) -> None:
    for partition, records in kept.items():
        assert not missing(records, read(broker, topic, partition))
        assert not send(broker, topic, partition, RECORDS[:1]).refused


@pytest.mark.checklist(9, 202, 203, 204, "X10", "X11", "D10", 326)
@pytest.mark.parametrize("crash", [False, True])
def test_new_partitions_lie_by_id(start_broker: StartBroker, crash: bool) -> None:
    broker = start_broker(BY_ID)
    kept = fill(broker, "named", 3)
    ids = topic_ids(broker, "named")
    wanted = {str(by_id(ids["named"], p)) for p in range(3)}
    assert partitions_in(broker.data_dir) == wanted
    inside = [str(path.relative_to(broker.data_dir)) for path in files(broker.data_dir)]
    assert not [path for path in inside if "named" in path], "a name in the layout by id"
    broker.restart(crash=crash)
    assert partitions_in(broker.data_dir) == wanted
    assert topic_ids(broker, "named") == ids
    check(broker, "named", kept)
    assert "does not know" not in broker.console.read_text()


@pytest.mark.checklist(202, 205)
def test_found_partitions_change_once_and_never_back(start_broker: StartBroker) -> None:
    broker = start_broker()
    kept = fill(broker, "old", 2)
    ids = topic_ids(broker, "old")
    assert partitions_in(broker.data_dir) == {"old-0", "old-1"}
    broker.stop()
    broker.settings |= BY_ID
    broker.start()
    wanted = {str(by_id(ids["old"], p)) for p in range(2)}
    assert partitions_in(broker.data_dir) == wanted
    check(broker, "old", kept)
    broker.stop()
    del broker.settings["log.dir.layout"]
    broker.start()
    new = fill(broker, "new")
    # __consumer_offsets is beside them, because the reader of `check` has caused its creation.
    assert {*wanted, "new-0"} <= partitions_in(broker.data_dir), "side by side"
    assert not partitions_in(broker.data_dir) & {"old-0", "old-1"}, "nothing goes back"
    check(broker, "old", kept)
    broker.restart(crash=True)
    check(broker, "old", kept)
    check(broker, "new", new)


@pytest.mark.checklist(79, 81, 202)
def test_deletion_and_a_new_incarnation(start_broker: StartBroker) -> None:
    broker = start_broker({**BY_ID, "delete.topic.delay.ms": "0"})
    fill(broker, "t")
    first = topic_ids(broker, "t")["t"]
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.delete_topics(["t"])["t"].result(PATIENCE_S)
    kept = fill(broker, "t")
    second = topic_ids(broker, "t")["t"]
    assert first != second
    wait_for(lambda: partitions_in(broker.data_dir) == {str(by_id(second))})
    check(broker, "t", kept)
    broker.restart()
    check(broker, "t", kept)


@pytest.mark.checklist(135, 202)
def test_a_move_between_directories(start_broker: StartBroker, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    broker = start_broker({**BY_ID, "log.dirs": f"{one},{two}"})
    kept = fill(broker, "t")
    topic_id = topic_ids(broker, "t")["t"]
    to = two if (one / by_id(topic_id)).is_dir() else one
    assert move(broker, "t", 0, to) == 0
    wait_for(lambda: place(broker, "t") == [(to.name, False)])
    assert (to / by_id(topic_id) / "partition.metadata").is_file()
    check(broker, "t", kept)
    broker.restart(crash=True)
    assert place(broker, "t") == [(to.name, False)]
    check(broker, "t", kept)


@pytest.mark.checklist("A21", 202)
def test_a_directory_whose_file_says_otherwise_is_put_aside(start_broker: StartBroker) -> None:
    broker = start_broker(BY_ID)
    fill(broker, "t")
    kept = fill(broker, "well")
    file = broker.data_dir / by_id(topic_ids(broker, "t")["t"]) / "partition.metadata"
    broker.stop()
    file.write_text(f"version: 0\ntopic_id: {Uuid.random()}")
    broker.start()
    check(broker, "well", kept)
    broker.stop()
    assert file.is_file()
    assert str(file.parent) in broker.console.read_text()
