"""A start that is refused because the data belongs to another broker or cluster has changed nothing."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.trouble.traffic import create, missing, read, send


def refusal(start_broker: StartBroker, settings: dict[str, str]) -> str:
    with pytest.raises(RuntimeError) as refused:
        start_broker(settings)
    said = re.findall("^pybroker: .*", str(refused.value), re.MULTILINE)
    assert len(said) == 1, refused.value
    return str(said[0])


def stored(folder: Path) -> list[object]:
    """Return the nodes of the metadata store."""
    store = sqlite3.connect(f"file:{folder / 'metadata.db'}?mode=ro", uri=True)
    try:
        (table,) = (
            name for (name,) in store.execute("select name from sqlite_master where type='table'") if "node" in name
        )
        return sorted(map(repr, store.execute(f"select * from {table}")))
    finally:
        store.close()


@pytest.mark.checklist("C12")
def test_another_node_id_is_refused_before_anything_is_written(start_broker: StartBroker) -> None:
    broker = start_broker({"node.id": "1"})
    create(broker, "kept")
    sent = send(broker, "kept", 0, [b"value"])
    broker.stop()
    before = stored(broker.data_dir)
    said = refusal(start_broker, {"node.id": "2", "log.dirs": str(broker.data_dir)})
    assert "belongs to broker 1, this is broker 2" in said
    assert stored(broker.data_dir) == before, "the controller epoch, too, is what it was"
    broker.start()
    assert not missing(sent.acknowledged, read(broker, "kept", 0))


@pytest.mark.checklist("C12", 255)
@pytest.mark.parametrize("first", ["new", "own"])
def test_a_second_directory_of_another_cluster_leaves_the_first_as_it_was(
    first: str, start_broker: StartBroker, tmp_path: Path
) -> None:
    other: BrokerProcess = start_broker()
    other.stop()
    own = tmp_path / "own"
    if first == "own":
        mine = start_broker({"log.dirs": str(own)})
        mine.stop()
    else:
        own.mkdir()
    before = {path.relative_to(own): path.read_bytes() for path in own.rglob("*") if path.is_file()}
    nodes = stored(own) if first == "own" else []
    said = refusal(start_broker, {"log.dirs": f"{own},{other.data_dir}"})
    assert str(other.data_dir) in said
    after = {path.relative_to(own) for path in own.rglob("*") if path.is_file()}
    assert {path for path in after if not path.name.startswith("metadata.db-")} == set(before)
    assert (stored(own) if first == "own" else []) == nodes
    other.start()


@pytest.mark.checklist("C12")
def test_an_emptied_store_is_refused_though_what_was_not_yet_in_it_is_there(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.kill()
    store = broker.data_dir / "metadata.db"
    late = store.with_name("metadata.db-wal")
    whole, kept = store.read_bytes(), late.read_bytes()
    assert whole
    assert kept
    store.write_bytes(b"")
    said = refusal(start_broker, {"log.dirs": str(broker.data_dir)})
    assert str(store) in said
    assert (store.read_bytes(), late.read_bytes()) == (b"", kept), "nothing was changed"
    store.write_bytes(whole)
    broker.start()
