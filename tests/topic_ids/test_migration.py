"""Topics from before topic ids (KIP-516): a store and directories written by the test get ids once; an id that an older
tool has removed is found again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.sqlite_store import EmbeddedStore
from pybroker.native import Uuid
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.stopped import (
    before_ids,
    forget_history,
    in_store,
    metadata_file,
    nodes_below,
    put,
    topic_ids,
    topic_node,
)
from tests.trouble.traffic import create, missing, read, send

RECORDS = [b"record %04d" % number for number in range(200)]


def drop_id(broker: BrokerProcess, name: str) -> None:
    """Write a stopped broker's topic node like a tool that knows no ids."""
    node = {"version": 2, "partitions": topic_node(broker.data_dir, name)["partitions"]}
    put(broker.data_dir, {znodes.topic_path(name): json.dumps(node).encode()})


@pytest.mark.checklist(38, 39, 40, 41, 42, 43, 45, 47, 49, 50, 138, 207, 208, 209, 211, 212, 215, "A16")
def test_old_topics_get_ids_once_and_keep_their_data(start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, "one", 3)
    create(broker, "two", 1)
    create(broker, "never-written", 1)
    kept = {(name, p): send(broker, name, p, RECORDS).acknowledged for name, p in (("one", 0), ("one", 2), ("two", 0))}
    lost = topic_ids(broker, "one", "two", "never-written")
    broker.stop()
    before_ids(broker, 1, "one", "never-written")
    before_ids(broker, 2, "two")
    broker.start()
    ids = topic_ids(broker, "one", "two", "never-written")
    assert len({*ids.values(), Uuid.ZERO, Uuid.METADATA, *lost.values()}) == 8, "new, random and different"
    for (name, partition), records in kept.items():
        assert not missing(records, read(broker, name, partition))
        assert metadata_file(broker, name, partition).read_text() == f"version: 0\ntopic_id: {ids[name]}"
        assert not send(broker, name, partition, RECORDS[:1]).refused
    assert metadata_file(broker, "never-written").read_text() == f"version: 0\ntopic_id: {ids['never-written']}"
    broker.stop()
    nodes = {name: topic_node(broker.data_dir, name) for name in ids}
    for name, node in nodes.items():
        assert (node["version"], node["id"]) == (3, str(ids[name]))
        assert list(node) == ["version", "id", "partitions", "adding_replicas", "removing_replicas"]
    assert nodes_below(broker.data_dir, znodes.TOPIC_IDS) == {}, "finished"
    files = {path: path.stat().st_mtime_ns for path in broker.data_dir.glob("*/partition.metadata")}
    for crash in (False, True):  # a second start and a third one, after a crash, change nothing
        broker.start()
        assert topic_ids(broker, *ids) == ids
        broker.kill() if crash else broker.stop()
        assert {path: path.stat().st_mtime_ns for path in files} == files
        assert {name: topic_node(broker.data_dir, name) for name in ids} == nodes


@pytest.mark.checklist(212, "A16", "A19")
def test_a_crash_between_the_id_and_the_files_is_made_good(start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, "old", 2)
    kept = send(broker, "old", 0, RECORDS).acknowledged
    broker.stop()
    before_ids(broker, 2, "old")
    # The first write of a start is the migration's; the crash comes before any file is written.
    chosen = Uuid.random()

    async def migrate(store: EmbeddedStore) -> None:
        path = znodes.topic_path("old")
        node = await store.get(path)
        content = json.loads(node.data) | {"version": 3, "id": str(chosen)}
        await store.set(path, json.dumps(content).encode())
        record = znodes.TopicIdRecord(chosen, node.created_zxid).encode()
        await store.create(znodes.topic_id_path("old"), record)

    in_store(broker.data_dir, migrate)
    broker.start()
    assert topic_ids(broker, "old") == {"old": chosen}
    assert not missing(kept, read(broker, "old", 0))
    assert metadata_file(broker, "old", 1).read_text().endswith(str(chosen))


@pytest.mark.checklist("A22", "D28", 133, 212)
def test_an_id_that_an_older_tool_has_dropped_is_found_in_the_files(start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, "kept", 2)
    records = send(broker, "kept", 0, RECORDS).acknowledged
    ids = topic_ids(broker, "kept")
    broker.stop()
    # KAFKA-14190: a tool of 2.x rewrites the node, with version 2 and without the id.
    node = topic_node(broker.data_dir, "kept")
    put(
        broker.data_dir,
        {znodes.topic_path("kept"): json.dumps({"version": 2, "partitions": node["partitions"]}).encode()},
    )
    metadata_file(broker, "kept", 1).unlink()  # the other one is enough
    broker.start()
    assert topic_ids(broker, "kept") == ids
    assert not missing(records, read(broker, "kept", 0))
    assert metadata_file(broker, "kept", 1).read_text().endswith(str(ids["kept"]))
    assert "restored the lost id of a topic" in broker.console.read_text()
    broker.stop()
    assert topic_node(broker.data_dir, "kept")["id"] == str(ids["kept"])


@pytest.mark.checklist("A22")
def test_files_that_disagree_settle_nothing(start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, "torn", 2)
    create(broker, "well", 1)
    broker.stop()
    node = topic_node(broker.data_dir, "torn")
    put(
        broker.data_dir,
        {znodes.topic_path("torn"): json.dumps({"version": 2, "partitions": node["partitions"]}).encode()},
    )
    forget_history(broker.data_dir, Uuid.parse(node["id"]))
    # The partition needs its own file: partitions that are created together share one.
    metadata_file(broker, "torn", 1).unlink()
    metadata_file(broker, "torn", 1).write_text(f"version: 0\ntopic_id: {Uuid.random()}")
    before = sorted(path.name for path in broker.data_dir.glob("torn-*/*"))
    broker.start()
    assert topic_ids(broker, "torn") == {"torn": Uuid.ZERO}
    assert topic_ids(broker, "well")["well"] != Uuid.ZERO
    assert "the directories of 'torn' have several" in broker.console.read_text()
    broker.stop()
    assert "id" not in topic_node(broker.data_dir, "torn")
    assert sorted(path.name for path in broker.data_dir.glob("torn-*/*")) == before


GOLDEN_ID = "b8tRS7h4TJ2Vt43Dp85v2A"
GOLDEN = (
    b'{"version":3,"id":"b8tRS7h4TJ2Vt43Dp85v2A","partitions":{"0":[0,1,3]},'
    b'"adding_replicas":{},"removing_replicas":{}}'
)


@pytest.mark.checklist(38, 39, 40, 41, 42, 43, 44, "X25", "D12")
def test_the_golden_node() -> None:
    node = znodes.decode_topic("/brokers/topics/t", GOLDEN)
    assert str(node.topic_id) == GOLDEN_ID
    assert node.partitions == {0: (0, 1, 3)}
    assert node.encode() == GOLDEN


@pytest.mark.checklist(45, "X8", "X25", "D12")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"version":1,"partitions":{"0":[1]}}', None),
        ('{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}', None),
        ('{"version":"3","id":null,"partitions":{"0":[1]},"adding_replicas":null}', None),
        ('{"version":3,"id":"","partitions":{"0":[1]}}', None),
        ('{"version":3,"topic_id":"b8tRS7h4TJ2Vt43Dp85v2A","partitions":{"0":[1]}}', GOLDEN_ID),
        ('{"version":3,"id":"6fcb514bb8784c9d95b78dc3a7ce6fd8","partitions":{"0":[1]}}', GOLDEN_ID),
        (
            '{"version":4,"id":"6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8","partitions":{"0":[1]},"x":[]}',
            "b8tRS7h4TJ2Vt43Dp85v2A",
        ),
    ],
)
def test_reading_is_lenient(text: str, found: str | None) -> None:
    node = znodes.decode_topic("/brokers/topics/t", text.encode())
    assert node.partitions == {0: (1,)}
    assert node.topic_id == (None if found is None else Uuid.parse(found))


@pytest.mark.checklist(31, 33, 44)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"version":3,"id":"short","partitions":{"0":[1]}}',
        '{"version":3,"id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1]}}',
        '{"version":3,"id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"0":[1]}}',
        '{"version":3,"partitions":{"1":[1]}}',
        '{"version":3,"partitions":[1]}',
    ],
)
def test_a_damaged_node_is_refused(text: str) -> None:
    with pytest.raises(znodes.DamagedNodeError):
        znodes.decode_topic("/brokers/topics/t", text.encode())


@pytest.mark.checklist(208, 212)
def test_a_copy_made_before_the_migration_gets_other_ids(start_broker: StartBroker, tmp_path: Path) -> None:
    """Ids are random: two clusters that grew from one backup never share one (checklist 11)."""
    broker = start_broker()
    create(broker, "old", 1)
    broker.stop()
    before_ids(broker, 1, "old")
    shutil.copytree(broker.data_dir, tmp_path / "copy")
    other = start_broker({"log.dirs": str(tmp_path / "copy")})
    broker.start()
    assert topic_ids(broker, "old") != topic_ids(other, "old")
