"""A damaged file never prevents a start, and costs at most its own contents. There are two exceptions: files that say
to whom the data belongs. If the broker cannot read them, it refuses to start with one line and changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.trouble.traffic import PATIENCE_S, complaints, create, missing, read, send

HURT = [b"hurt %04d " % number * 3_000 for number in range(90)]  # three segments
WELL = [b"well %04d " % number * 100 for number in range(50)]

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "cut by one": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content) or 100),
    "garbage": lambda content: b"\xfe\xed\x00garbage\n" * (len(content) // 11 + 1),
    "longer": lambda content: content + b"\x7f" * 100,
    "flipped": lambda content: (
        bytes([*content[: len(content) // 2], 255 - content[len(content) // 2]]) + content[len(content) // 2 + 1 :]
        if content
        else b"\x01"
    ),
}

QUICK = ("empty", "cut", "garbage")
"""The damages of the normal suite, after a clean stop. The slow suite tries all of them, after a kill too."""

# Of the log "hurt-0": made by the product, or (the last two) put there as if it had been.
IN_A_LOG = [
    "00000000000000000000.log",
    "middle.log",
    "last.log",
    "00000000000000000000.index",
    "last.index",
    "00000000000000000000.timeindex",
    "last.timeindex",
    "last.snapshot",
    "00000000000000000000.txnindex",
    "leader-epoch-checkpoint",
    "partition.metadata",
]
# Where a log file itself is damaged: offsets that lie in other segments and must be there.
UNHURT = {"00000000000000000000.log": (34, len(HURT)), "middle.log": (69, len(HURT)), "last.log": (0, 68)}
AT_THE_TOP = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
]
WHOSE_IT_IS = ["meta.properties", "metadata.db"]


class Data(NamedTuple):
    """A data directory to copy, and its records."""

    folder: Path
    hurt: dict[int, bytes]
    well: dict[int, bytes]
    kinds: tuple[str, ...]
    killed: bool


@pytest.fixture(
    params=["quick", pytest.param("stopped", marks=pytest.mark.slow), pytest.param("killed", marks=pytest.mark.slow)]
)
def data(request: pytest.FixtureRequest, start_broker: StartBroker) -> Data:
    broker = start_broker()
    create(broker, "hurt", segment_bytes=1 << 20)
    create(broker, "well")
    hurt = send(broker, "hurt", 0, HURT, **{"enable.idempotence": True, "retries": 5})
    well = send(broker, "well", 0, WELL)
    assert not hurt.refused
    assert not well.refused
    # A clean stop writes the checkpoints, so that a kill after it leaves all files, too.
    broker.stop()
    if request.param == "killed":
        broker.start()
        assert not send(broker, "well", 0, WELL[:1]).refused
        broker.kill()
    assert len(list((broker.data_dir / "hurt-0").glob("*.log"))) >= 3
    kinds = QUICK if request.param == "quick" else tuple(DAMAGE)
    return Data(broker.data_dir, hurt.acknowledged, well.acknowledged, kinds, request.param == "killed")


def file_of(folder: Path, name: str) -> Path:
    if name in AT_THE_TOP or name in WHOSE_IT_IS:
        return folder / name
    log = folder / "hurt-0"
    if name.startswith("last."):
        there = sorted(log.glob(f"*{Path(name).suffix}"))
        return there[-1] if there else log / f"{0:020}{Path(name).suffix}"
    if name.startswith("middle."):
        return sorted(log.glob(f"*{Path(name).suffix}"))[1]
    return log / name


def losses(broker: BrokerProcess, data: Data, unsaid: str = "") -> tuple[list[int], list[int]]:
    """Offsets of "hurt" whose records are gone, and those that the broker's log calls lost.

    One thread serves the records, and another thread writes the broker's log: the test waits for the log. A loss that
    the broker cannot know counts as logged. `unsaid` names such a loss: "end" if only the last file tells where the
    partition's log ended, "one" for one record anywhere.
    """
    found = read(broker, "hurt", 0)
    assert not [offset for offset in found if offset not in data.hurt], "records that were never sent"
    lost = missing(data.hurt, found)
    unknown = {"": [], "end": [offset for offset in lost if offset > max(found)], "one": lost[:1]}[unsaid]
    give_up = time.monotonic() + PATIENCE_S
    while True:
        console = broker.console.read_text(errors="replace")
        ranges = re.findall(r"hurt-0: records (\d+) to (\d+) are lost", console)
        said = {offset for first, last in ranges for offset in range(int(first), int(last) + 1)}
        said.update(unknown)
        if sorted(said) == lost or time.monotonic() > give_up:
            return lost, sorted(said)
        time.sleep(0.02)


def not_known(data: Data, name: str, kind: str) -> str:
    """Losses that look the same as damage to a segment: see `losses`."""
    if not data.killed or name not in UNHURT:
        return ""
    if name == "last.log":
        return "end"
    # After a kill the middle of older segments is not looked at: consumers find such a batch by its checksum.
    return "one" if kind == "flipped" else ""


@pytest.mark.timeout(400)
@pytest.mark.checklist("C6", "C14", "C15", "C16", "C20", "I7")
@pytest.mark.parametrize("name", IN_A_LOG + AT_THE_TOP)
def test_a_start_with_a_damaged_file(data: Data, name: str, start_broker: StartBroker, tmp_path: Path) -> None:
    for number, kind in enumerate(data.kinds):
        damage = DAMAGE[kind]
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(data.folder, copy)
        file = file_of(copy, name)
        file.write_bytes(damage(file.read_bytes() if file.exists() else b"0\n1\nhurt 0 7\n"))
        broker = start_broker({"log.dirs": str(copy)})
        assert not missing(data.well, read(broker, "well", 0)), f"{kind}: another partition"
        assert not send(broker, "well", 0, WELL[:1]).refused, kind
        if name != "partition.metadata":
            what = f"{name} {kind}"
            unsaid = not_known(data, name, kind)
            lost, said = losses(broker, data, unsaid)
            start, stop = UNHURT.get(name, (0, len(HURT)))
            assert not [offset for offset in lost if start <= offset < stop], f"{what}: lost {lost}"
            again = send(broker, "hurt", 0, HURT[:1])
            assert not again.refused, what
            assert lost == said, f"{what}: what is lost is said"
            if unsaid != "end":
                assert min(again.acknowledged) == len(HURT), f"{what}: an offset was given twice"
        log = broker.console.read_text(errors="replace")
        assert "Traceback" not in log, f"{kind}\n{log}"
        assert "panicked" not in log, f"{kind}\n{log}"
        broker.kill()
        shutil.rmtree(copy)


@pytest.mark.timeout(400)
@pytest.mark.checklist("C12")
@pytest.mark.parametrize("name", WHOSE_IT_IS)
def test_a_start_without_knowing_whose_data_it_is(
    data: Data, name: str, start_broker: StartBroker, tmp_path: Path
) -> None:
    """If the damage is harmless, the broker serves the data unchanged; otherwise it refuses to start with one line.
    After a repair all data is there."""
    for number, kind in enumerate(data.kinds):
        damage = DAMAGE[kind]
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(data.folder, copy)
        file = copy / name
        whole = {path: path.read_bytes() for path in copy.glob(f"{name}*")}
        file.write_bytes(damage(whole[file]))
        try:
            broker = start_broker({"log.dirs": str(copy)})
        except RuntimeError as refusal:
            console = str(refusal)
            said = [line for line in console.splitlines() if line.startswith("pybroker: ")]
            assert len(said) == 1, f"{kind}: {console}"
            assert "Traceback" not in console
            assert name in said[0], f"{kind}: {said[0]}"
            assert "bug" not in said[0], f"{kind}: {said[0]}"
            for path in copy.glob(f"{name}*"):
                path.unlink()
            for path, content in whole.items():
                path.write_bytes(content)
            broker = start_broker({"log.dirs": str(copy)})
        assert not complaints(broker)
        assert not missing(data.well, read(broker, "well", 0)), kind
        assert not missing(data.hurt, read(broker, "hurt", 0)), kind
        broker.kill()
        shutil.rmtree(copy)


@pytest.mark.checklist("C6", "C19", "C20")
@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_damage_under_a_running_broker_stops_no_consumer_for_ever(
    how: str, data: Data, start_broker: StartBroker
) -> None:
    """In a truncated file, consumers continue after it. For bytes that are no batch, they get CORRUPT_MESSAGE and can
    seek past them."""
    broker = start_broker({"log.dirs": str(data.folder)})
    first, second = sorted((data.folder / "hurt-0").glob("*.log"))[:2]
    whole = first.read_bytes()
    if how == "cut":
        os.truncate(first, len(whole) // 2)
        lost, said = losses(broker, data)
        assert lost
        assert lost == list(range(lost[0], int(second.stem)))
        assert said == lost, broker.log_tail()
    else:
        # The format number of the fourth batch.
        position = whole.find((3).to_bytes(8, "big"), 3 * len(HURT[0]))
        with first.open("r+b") as file:
            file.seek(position + 16)
            file.write(b"\x09")
        assert read(broker, "hurt", 0, 0, 3)
        with pytest.raises(AssertionError, match="INVALID_MSG"):
            read(broker, "hurt", 0, 3)
        assert not missing({o: v for o, v in data.hurt.items() if o >= 5}, read(broker, "hurt", 0, 5))
        broker.stop()
        again = start_broker({"log.dirs": str(data.folder)})
        lost, said = losses(again, data)
        assert lost == said == [3]
