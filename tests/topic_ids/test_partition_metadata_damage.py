"""`partition.metadata` that is damaged, missing, foreign, oversized or in another notation, in a broker as users run
it: it costs at most its own partition, and nothing is deleted or guessed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.native import Uuid
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import Lives, until
from tests.topic_ids.stopped import metadata_file, topic_ids
from tests.trouble.traffic import create, missing, read, send

RECORDS = [b"record %04d" % number for number in range(100)]


def dashed(topic_id: Uuid) -> str:
    text = topic_id.hex
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


READABLE: dict[str, Callable[[Uuid], bytes]] = {
    "base64": lambda i: f"version: 0\ntopic_id: {i}".encode(),
    "hex": lambda i: f"version: 0\ntopic_id: {i.hex}\n".encode(),
    "dashed": lambda i: f"version: 0\ntopic_id: {dashed(i)}\n".encode(),
    "upper-hex": lambda i: f"version: 0\ntopic_id: {i.hex.upper()}\n".encode(),
    "crlf": lambda i: f"version: 0\r\ntopic_id: {i}\r\n".encode(),
    "more-lines": lambda i: f"version: 0\ntopic_id: {i}\nowner: somebody\n\ncreated_ms: 5\n".encode(),
    "other-order": lambda i: f"topic_id: {i}\nversion: 0\n".encode(),
    "version-above-0": lambda i: f"version: 7\ntopic_id: {i}\nwhat: ever".encode(),
}
DAMAGED: dict[str, Callable[[Uuid], bytes | None]] = {
    "missing": lambda i: None,
    "empty": lambda i: b"",
    "cut": lambda i: f"version: 0\ntopic_id: {i}".encode()[:-3],
    "no-id": lambda i: b"version: 0\n",
    "no-version": lambda i: f"topic_id: {i}".encode(),
    "negative-version": lambda i: f"version: -1\ntopic_id: {i}".encode(),
    "zero-id": lambda i: b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    "reserved-id": lambda i: b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
    "bad-base64": lambda i: b"version: 0\ntopic_id: !!!!!!!!!!!!!!!!!!!!!!",
    "garbage-behind": lambda i: f"version: 0\ntopic_id: {i}\n\x00\x00\x00".encode(),
    "twice": lambda i: f"version: 0\ntopic_id: {i}\ntopic_id: {Uuid.random()}".encode(),
    "binary": lambda i: bytes(range(256)),
    "oversized": lambda i: f"version: 0\ntopic_id: {i}\n".encode() + b"x: y\n" * 1_000_000,
    "unknown-id": lambda i: f"version: 0\ntopic_id: {Uuid.random()}".encode(),
}


@pytest.fixture
def stopped(start_broker: StartBroker) -> Callable[[list[str]], tuple[BrokerProcess, dict[str, Uuid]]]:
    def make(names: list[str]) -> tuple[BrokerProcess, dict[str, Uuid]]:
        broker = start_broker()
        for name in names:
            create(broker, name)
            assert not send(broker, name, 0, RECORDS).refused
        ids = topic_ids(broker, *names)
        broker.stop()
        return broker, ids

    return make


Stopped = Callable[[list[str]], tuple[BrokerProcess, dict[str, Uuid]]]


def all_there(broker: BrokerProcess, name: str) -> bool:
    return list(read(broker, name, 0).values())[: len(RECORDS)] == RECORDS


@pytest.mark.checklist(129, 130, 131, 132, 133, 134, "X8", "X9", "D11")
def test_every_notation_and_later_versions_are_read(stopped: Stopped) -> None:
    broker, ids = stopped(list(READABLE))
    written = {name: make(ids[name]) for name, make in READABLE.items()}
    for name, content in written.items():
        assert metadata_file(broker, name).read_bytes() == READABLE["base64"](ids[name]), "as Kafka writes it"
        metadata_file(broker, name).write_bytes(content)
    broker.start()
    assert topic_ids(broker, *ids) == ids
    for name in ids:
        assert all_there(broker, name), name
        assert not send(broker, name, 0, RECORDS[:1]).refused, name
        assert metadata_file(broker, name).read_bytes() == written[name], "not rewritten"


@pytest.mark.checklist(133, "A17", "A19", "A20", "D7")
def test_damage_costs_its_partition_only_and_deletes_nothing(stopped: Stopped) -> None:
    broker, ids = stopped([*DAMAGED, "well"])
    before = {}
    for name, make in DAMAGED.items():
        content = make(ids[name])
        if content is None:
            metadata_file(broker, name).unlink()
        else:
            metadata_file(broker, name).write_bytes(content)
        before[name] = {path.name: path.read_bytes() for path in metadata_file(broker, name).parent.iterdir()}
    broker.start()
    assert all_there(broker, "well")
    assert not send(broker, "well", 0, RECORDS[:1]).refused
    assert topic_ids(broker, *ids) == ids, "the controller's ids stand"
    for name in DAMAGED:
        sent = send(broker, name, 0, RECORDS[:1], **{"message.timeout.ms": 1000})
        assert sent.refused, f"{name}: served"
    broker.stop()
    console = broker.console.read_text()
    for name, files in before.items():
        directory = metadata_file(broker, name).parent
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == files, f"{name}: touched"
        assert any(str(directory) in line for line in console.splitlines()), f"{name}: no word to the operator"
    assert not list((broker.data_dir / "deleting").glob("*"))


@pytest.mark.checklist("A20")
def test_a_mended_file_brings_the_partition_back(stopped: Stopped) -> None:
    broker, ids = stopped(["a"])
    metadata_file(broker, "a").write_bytes(b"")
    broker.start()
    assert send(broker, "a", 0, RECORDS[:1], **{"message.timeout.ms": 1000}).refused
    broker.stop()
    metadata_file(broker, "a").write_bytes(READABLE["hex"](ids["a"]))
    broker.start()
    assert all_there(broker, "a")
    assert not send(broker, "a", 0, RECORDS[:1]).refused


@pytest.mark.checklist("A19", 138)
def test_a_directory_that_never_held_a_record_takes_the_id(stopped: Stopped, start_broker: StartBroker) -> None:
    broker = start_broker()
    create(broker, "empty")
    ids = topic_ids(broker, "empty")
    broker.stop()
    metadata_file(broker, "empty").unlink()
    broker.start()
    assert metadata_file(broker, "empty").read_bytes() == READABLE["base64"](ids["empty"])
    assert not send(broker, "empty", 0, RECORDS).refused


@pytest.mark.checklist(78, 80, "R10")
def test_a_directory_of_unknown_id_that_a_new_topic_replaces_is_announced(stopped: Stopped) -> None:
    """It waits the whole delay, and a WARN line names it and the deadline."""
    broker, ids = stopped(["t"])
    unknown = Uuid.random()
    metadata_file(broker, "t").write_bytes(f"version: 0\ntopic_id: {unknown}".encode())
    broker.start()
    lives = Lives(broker.port)
    assert lives.delete(ids["t"]).error_code == 0
    broker.restart()
    replica = broker.data_dir / "t-0"
    line = f"the cluster does not know its topic id; it stays where it is replica={replica} id={unknown}"
    assert line in broker.console.read_text()
    # Its epochs continue those of the deleted topic, so they are above all epochs in the directory.
    assert lives.create("t") != unknown
    assert lives.produce("t", "new").base_offset == 0

    def told() -> list[str]:
        lines = broker.console.read_text().splitlines()
        return [line for line in lines if "will be removed" in line and str(unknown) in line]

    until(lambda: told() != [], "the line about what waits")
    (line,) = told()
    assert " WARN " in line
    assert "partitions 0 " in line
    assert (broker.data_dir / "deleting" / f"{unknown.hex}_0").is_dir()


@pytest.mark.checklist("A21")
def test_a_directory_of_another_topic_is_put_aside(stopped: Stopped) -> None:
    """An operator copied a directory: an id that the store knows under another name."""
    broker, _ = stopped(["theirs", "ours"])
    ours, theirs = (metadata_file(broker, name).parent for name in ("ours", "theirs"))
    shutil.rmtree(ours)
    shutil.copytree(theirs, ours)
    before = {path.name: path.read_bytes() for path in ours.iterdir()}
    broker.start()
    assert all_there(broker, "theirs")
    assert not send(broker, "theirs", 0, RECORDS[:1]).refused
    assert send(broker, "ours", 0, RECORDS[:1], **{"message.timeout.ms": 1000}).refused
    broker.stop()
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == before


def jbod(start_broker: StartBroker, tmp_path: Path) -> tuple[BrokerProcess, Path, Path]:
    one, two = tmp_path / "one", tmp_path / "two"
    return start_broker({"log.dirs": f"{one},{two}"}), one, two


@pytest.mark.checklist("A6")
@pytest.mark.parametrize("current_first", [True, False])
def test_two_directories_with_different_ids(start_broker: StartBroker, tmp_path: Path, current_first: bool) -> None:
    broker, one, two = jbod(start_broker, tmp_path)
    create(broker, "t")
    kept = send(broker, "t", 0, RECORDS).acknowledged
    ids = topic_ids(broker, "t")
    broker.stop()
    current = next(path for path in (one, two) if (path / "t-0").is_dir())
    other = two if current == one else one
    if (current == one) != current_first:
        (current / "t-0").rename(other / "t-0")
        current, other = other, current
    foreign = Uuid.random()
    shutil.copytree(current / "t-0", other / "t-0")
    (other / "t-0" / "partition.metadata").write_bytes(READABLE["base64"](foreign))
    before = {path.name: path.read_bytes() for path in (other / "t-0").iterdir()}
    broker.start()
    assert topic_ids(broker, "t") == ids
    assert not missing(kept, read(broker, "t", 0)), "never a merge"
    assert not send(broker, "t", 0, RECORDS[:1]).refused
    broker.stop()
    # Nothing proves that the other one is older (equal epochs): it is neither served nor deleted.
    assert {path.name: path.read_bytes() for path in (other / "t-0").iterdir()} == before
    assert str(other / "t-0") in broker.console.read_text()
    # Its epoch is below the current one, which proves that it is older: it is staged.
    (other / "t-0" / "leader-epoch-checkpoint").write_bytes(b"0\n0\n")
    broker.start()
    assert not (other / "t-0").exists()
    assert (other / "deleting" / f"{foreign.hex}_0" / "partition.metadata").is_file()
    assert not missing(kept, read(broker, "t", 0))


@pytest.mark.checklist("A7")
def test_two_directories_with_the_same_id(start_broker: StartBroker, tmp_path: Path) -> None:
    broker, one, two = jbod(start_broker, tmp_path)
    create(broker, "t")
    kept = send(broker, "t", 0, RECORDS).acknowledged
    broker.stop()
    current = next(path for path in (one, two) if (path / "t-0").is_dir())
    other = two if current == one else one
    shutil.copytree(current / "t-0", other / "t-0")
    before = {path.name: path.read_bytes() for path in (two / "t-0").iterdir()}
    broker.start()
    assert not missing(kept, read(broker, "t", 0))
    assert not send(broker, "t", 0, RECORDS[:1]).refused
    broker.stop()
    assert {path.name: path.read_bytes() for path in (two / "t-0").iterdir()} == before, "put aside, untouched"
    assert f"the same partition is also in {one / 't-0'}" in broker.console.read_text()
